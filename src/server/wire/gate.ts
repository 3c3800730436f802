import type { Handler } from "./listener.ts";

/** Requests wait until it is opened: whoever finds the port open, and the service healthy, can log in. */
export function gate(handler: Handler): { gated: Handler; open: () => void } {
  const { promise: opened, resolve } = Promise.withResolvers<void>();
  let isOpen = false;
  const open = () => {
    isOpen = true;
    resolve();
  };
  const gated: Handler = (request, response) => {
    if (isOpen) handler(request, response);
    else void opened.then(() => handler(request, response));
  };
  return { gated, open };
}
