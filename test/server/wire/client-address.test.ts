import { BlockList } from "node:net";
import { expect } from "chai";
import { addressKey, clientAddress } from "../../../src/server/wire/client-address.ts";

const trusted = new BlockList();
trusted.addSubnet("10.0.0.0", 8, "ipv4");
trusted.addAddress("::1", "ipv6");

describe("The client's address (G-11.4)", () => {
  const cases: [why: string, socket: string, forwarded: string | undefined, address: string][] = [
    ["is the socket's", "192.0.2.1", undefined, "192.0.2.1"],
    ["is the socket's, whatever it forwards, when that is no trusted proxy", "192.0.2.1", "198.51.100.1", "192.0.2.1"],
    ["is what a trusted proxy forwards", "10.0.0.1", "198.51.100.1", "198.51.100.1"],
    [
      "is the right-most hop that is no trusted proxy",
      "10.0.0.1",
      "203.0.113.9, 198.51.100.1, 10.1.1.1",
      "198.51.100.1",
    ],
    ["is the left-most when all are trusted", "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"],
    ["stops at a hop that is no address", "10.0.0.1", "198.51.100.1, unknown, 10.0.0.2", "10.0.0.2"],
    ["is not empty for an empty header", "10.0.0.1", "", "10.0.0.1"],
    ["sees IPv4 within IPv6", "::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"],
    ["is forwarded by proxies of IPv6 too", "::1", "2001:db8::1", "2001:db8::1"],
  ];
  for (const [why, socket, forwarded, address] of cases) {
    it(why, () => {
      expect(clientAddress(socket, forwarded, trusted)).to.equal(address);
    });
  }
});

describe("The key that an address is counted under", () => {
  const cases: [address: string, key: string][] = [
    ["192.0.2.1", "192.0.2.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:db8:1:2::", "2001:db8:1:2::/64"],
    ["2001:0DB8:0001:0002::9", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["::", "0:0:0:0::/64"],
    ["1::8", "1:0:0:0::/64"],
    ["64:ff9b::192.0.2.1", "64:ff9b:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ];
  for (const [address, key] of cases) {
    it(`is ${key} for ${address}`, () => {
      expect(addressKey(address)).to.equal(key);
    });
  }
});
