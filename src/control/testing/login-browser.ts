/** A browser without a window: keeps cookies, and sends the forms of the page that it shows. */
import type { Client } from "../access/authentication.ts";
import type { Control } from "../control.ts";

interface ShownPage {
  status: number;
  headers: Headers;
  text: string;
}

export class Browser {
  readonly #cookies = new Map<string, string>();
  #shown = "";

  constructor(
    private readonly control: Pick<Control, "handle">,
    private readonly client?: Client,
  ) {}

  open(path: string): Promise<ShownPage> {
    return this.#ask(path, {});
  }

  /** The hidden fields of the form with this target on the shown page. */
  fieldsOf(action: string): Record<string, string> {
    const form = this.#shown.split("<form").find((each) => each.includes(`action="${action}"`)) ?? "";
    const hidden = [...form.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)">/g)];
    return Object.fromEntries(hidden.map(([, name = "", value = ""]) => [name, value]));
  }

  /** Sends a form of the shown page with these fields filled in. */
  submit(action: string, fields: Record<string, string>): Promise<ShownPage> {
    return this.post(action, { ...this.fieldsOf(action), ...fields });
  }

  /** `headers`: what a browser says about the page of the form. */
  post(path: string, fields: Record<string, string>, headers: Record<string, string> = {}): Promise<ShownPage> {
    return this.#ask(path, { method: "POST", body: new URLSearchParams(fields), headers });
  }

  async #ask(path: string, init: { method?: string; body?: URLSearchParams; headers?: Record<string, string> }) {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const url = new URL(path, "http://localhost");
    const response = await this.control.handle(
      new Request(url, { ...init, headers: { cookie, ...init.headers } }),
      this.client,
    );
    for (const set of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      this.#cookies.set(name, value);
    }
    this.#shown = await response.text();
    return { status: response.status, headers: response.headers, text: this.#shown };
  }
}
