import net from "node:net";

/**
 * Sends one inline command to the Valkey at `path` and settles with the first line of its reply. Rejects when there is
 * none in time, or an error.
 */
export function command(path: string, line: string, timeoutMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(path);
    let reply = "";
    const timer = setTimeout(() => socket.destroy(new Error(`Valkey did not answer in ${timeoutMs} ms`)), timeoutMs);
    // Watching an engine must not keep the service from ending.
    timer.unref();
    socket.unref();
    socket.on("connect", () => socket.write(`${line}\r\n`));
    socket.on("data", (chunk) => {
      reply += chunk;
      if (!reply.includes("\r\n")) return;
      socket.destroy();
      const [first = ""] = reply.split("\r\n");
      if (first.startsWith("-")) reject(new Error(first.slice(1)));
      else resolve(first);
    });
    socket.on("error", reject);
    socket.on("close", () => {
      clearTimeout(timer);
      reject(new Error("Valkey closed the connection"));
    });
  });
}
