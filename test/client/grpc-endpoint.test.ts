import { expect } from "chai";
import { grpcEndpoint } from "../../src/client/grpc-endpoint.ts";

describe("The endpoint of a server", () => {
  const endpoints: [string, string, string][] = [
    ["https://holdfast.example.org", "https://holdfast.example.org", "dns:holdfast.example.org:443"],
    ["https://holdfast.example.org:8443/", "https://holdfast.example.org:8443", "dns:holdfast.example.org:8443"],
    ["http://localhost", "http://localhost", "dns:localhost:80"],
    ["http://[::1]:8080", "http://[::1]:8080", "dns:[::1]:8080"],
  ];
  for (const [text, url, target] of endpoints) {
    it(`of ${text} is ${target}`, () => {
      expect(grpcEndpoint(text)).to.include({ url, target });
    });
  }

  const others = ["", "localhost:8080", "ftp://a", "https://a/b", "https://a?b", "https://a#b", "https://u:p@a"];
  for (const text of others) {
    it(`is none for ${JSON.stringify(text)}`, () => {
      expect(grpcEndpoint(text)).to.equal(undefined);
    });
  }
});
