/** A dialogue over a connected socket, one question at a time. */
interface Talk {
  ask(question: string): Promise<string>;
  end(): void;
}

export async function talkTo(fd: number): Promise<Talk> {
  let heard = Promise.withResolvers<string>();
  const options: Bun.FdSocketOptions = {
    fd,
    socket: { data: (_socket, answer) => heard.resolve(answer.toString()), error: () => undefined },
  };
  const socket = await Bun.connect(options as unknown as Bun.UnixSocketOptions<undefined>);
  return {
    ask: async (question) => {
      heard = Promise.withResolvers<string>();
      socket.write(question);
      return await heard.promise;
    },
    end: () => socket.end(),
  };
}
