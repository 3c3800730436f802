import { expect } from "chai";
import { isSpecialAddress } from "../../src/outbound/special-addresses.ts";

const special: Readonly<Record<string, readonly string[]>> = {
  "this machine": ["127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "::1", "::"],
  "private networks": [
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
  ],
  "the link": ["169.254.169.254", "fe80::1", "fe80::1%eth0"],
  "a carrier's network": ["100.64.0.1", "100.100.100.200", "100.127.255.255"],
  "many machines": ["224.0.0.1", "239.255.255.255", "255.255.255.255", "240.0.0.1", "ff02::1"],
  "documentation, benchmarks and protocols": [
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "198.18.0.1",
    "192.0.0.192",
    "192.88.99.1",
    "2001:db8::1",
    "3fff::1",
    "2001::1",
    "100::1",
  ],
  "an IPv4 address in disguise": [
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "2002:7f00:1::",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
  ],
  "a cloud's own machines": ["168.63.129.16"],
  "nothing that is an address": ["", "localhost", "1.2.3", "127.1"],
};

const publicAddresses = [
  "1.1.1.1",
  "9.255.255.255",
  "11.0.0.0",
  "100.63.255.255",
  "100.128.0.0",
  "172.15.255.255",
  "172.32.0.0",
  "192.167.255.255",
  "223.255.255.255",
  "2606:4700:4700::1111",
  "2a00:1450::1",
  "64:ff9b::1.1.1.1",
];

describe("Special addresses", () => {
  for (const [what, addresses] of Object.entries(special)) {
    it(`are those of ${what}`, () => {
      expect(addresses.filter((address) => !isSpecialAddress(address))).to.deep.equal([]);
    });
  }

  it("are not those of the public Internet", () => {
    expect(publicAddresses.filter(isSpecialAddress)).to.deep.equal([]);
  });
});
