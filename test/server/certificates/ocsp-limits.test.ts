import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { Authorities } from "./authorities.ts";
import { aboutCertificate, ask, probe, responderOf } from "./ocsp.ts";

const limit = 5;

describe("The limit of OCSP queries", () => {
  const server = useServer({ RATE_LIMIT_OCSP: String(limit), TRUSTED_PROXIES: "127.0.0.1" });
  const authorities = new Authorities(server);
  const responder = () => responderOf(server.server);
  const from = (address: string) => ({ headers: { "x-forwarded-for": address } });

  it("is counted by client address over all replicas, IPv6 by its /64, and is told by HTTP", async () => {
    const replica = responderOf(await server.startReplica({}, ["ocsp"]));
    const root = await authorities.root();
    const post = (address: string, at: string) => ask(at, root, root.serial_number, from(address));

    const said = [];
    for (let count = 0; count <= limit; count += 1)
      said.push((await post(`2001:db8::${count}`, count % 2 === 0 ? responder() : replica)).said);
    const other = await post("2001:db8:0:1::1", responder());
    const refused = await fetch(responder(), {
      method: "POST",
      body: aboutCertificate(root, root.serial_number),
      ...from("2001:db8::ffff"),
    });

    expect(said).to.deep.equal([...Array(limit).fill("good"), "HTTP 429"]);
    expect(other.said).to.equal("good");
    expect(refused.status).to.equal(429);
    expect(Number(refused.headers.get("retry-after"))).to.be.within(1, 60);
    expect([...refused.headers.keys()].filter((name) => name.startsWith("x-ratelimit"))).to.deep.equal([]);
    expect(await refused.json()).to.have.nested.property("error.code", "RATE_LIMITED");
  });

  it("holds for lists and certificates of authorities, and not for probes", async () => {
    const { id } = await authorities.root();
    const statusOf = async (path: string) => (await fetch(`${responder()}${path}`, from("192.0.2.1"))).status;

    const statuses = [];
    for (let count = 0; count <= limit; count += 1) statuses.push(await statusOf(`/ca/${id}.crt`));

    expect(statuses).to.deep.equal([...Array(limit).fill(200), 429]);
    expect(await statusOf(`/crl/${id}.crl`)).to.equal(429);
    for (let count = 0; count <= 2 * limit; count += 1) expect(await statusOf("/ready")).to.equal(200);
  });

  it("is kept by each replica while Redis is away", async () => {
    const root = await authorities.root();
    await server.valkey.stop();

    const said = [];
    for (let count = 0; count <= limit; count += 1)
      said.push((await ask(responder(), root, root.serial_number, from("192.0.2.2"))).said);

    expect(said).to.deep.equal([...Array(limit).fill("good"), "HTTP 429"]);
    expect((await probe(responder(), "ready")).status).to.equal(200);
  });
});
