import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

const farewell = Buffer.from("X\0\0\0\u0004");
const fields = "SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0";
const lastWords = Buffer.concat([Buffer.from("E\0\0\0"), Buffer.from([4 + fields.length]), Buffer.from(fields)]);

/** Stands before the PostgreSQL of `url`, and answers each farewell as one does that is shut down at that moment. */
export async function shuttingDownProxy(url: string): Promise<{ url: string; close: () => void }> {
  const { hostname, port } = new URL(url);
  const host = decodeURIComponent(hostname);
  const behind = host.startsWith("/") ? { path: `${host}/.s.PGSQL.${port}` } : { host, port: Number(port) };
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connect(behind);
    for (const socket of [client, server]) sockets.add(socket.on("error", () => {}));
    server.pipe(client);
    client.on("data", (chunk) => {
      if (chunk.equals(farewell)) client.write(lastWords);
      server.write(chunk);
    });
    client.on("close", () => server.end());
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const front = new URL(url);
  front.hostname = "127.0.0.1";
  front.port = String((proxy.address() as AddressInfo).port);
  return {
    url: front.href,
    close() {
      proxy.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
