/** A process in which short requests begin all the time, told in the file that it is given. For tests. */
import { ShortRequests } from "../../../work/short-requests.ts";

const requests = new ShortRequests(Bun.mmap(process.argv[2] ?? "", { shared: true }), 0);
setInterval(() => requests.begin(), 1);
