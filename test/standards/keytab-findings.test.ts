import { expect } from "chai";
import { findingsOfFile } from "../../src/standards/keytab-findings.ts";

const harmless = { filePermissions: "0600", fileOwner: "root:root", principal: "HTTP/web@EXAMPLE.COM", kvnos: [3, 4] };

const findings = (fields: Partial<typeof harmless>) => findingsOfFile({ ...harmless, ...fields });

describe("The findings of a file", () => {
  it("are none for one of root's that only root may read", () => {
    expect(findings({})).to.deep.equal([]);
  });

  for (const filePermissions of ["0604", "0602", "0601", "4601"]) {
    it(`say that others may use one with the permissions ${filePermissions}`, () => {
      expect(findings({ filePermissions })).to.deep.equal(["world_readable"]);
    });
  }

  for (const filePermissions of ["0640", "0620", "0660"]) {
    it(`say that a group may read or write one with the permissions ${filePermissions}`, () => {
      expect(findings({ filePermissions })).to.deep.equal(["group_readable"]);
    });
  }

  for (const filePermissions of ["0400", "0610", "7700", "1600"]) {
    it(`say nothing of the permissions ${filePermissions}`, () => {
      expect(findings({ filePermissions })).to.deep.equal([]);
    });
  }

  const owners = [
    { fileOwner: "1001:apache", principal: harmless.principal, isWrong: true, why: "the host does not know its owner" },
    { fileOwner: "apache:apache", principal: harmless.principal, isWrong: false, why: "a service owns its own keys" },
    { fileOwner: "0:0", principal: "host/web@EXAMPLE.COM", isWrong: false, why: "0 is root without a name" },
    { fileOwner: "apache:root", principal: "host/web@EXAMPLE.COM", isWrong: true, why: "it has the keys of the host" },
    { fileOwner: "apache:root", principal: "HOST/web@EXAMPLE.COM", isWrong: true, why: "Windows writes them so" },
    { fileOwner: "apache:root", principal: "WEB$@EXAMPLE.COM", isWrong: true, why: "the host is a computer account" },
    { fileOwner: "apache:root", principal: "host@EXAMPLE.COM", isWrong: false, why: "a user may be named host" },
    { fileOwner: "apache:root", principal: "HTTP/pay$@EXAMPLE.COM", isWrong: false, why: "no account ends there" },
    { fileOwner: "root:1001", principal: harmless.principal, isWrong: false, why: "a group is no owner" },
  ];
  for (const { fileOwner, principal, isWrong, why } of owners) {
    it(`${isWrong ? "object" : "do not object"} to ${fileOwner} for ${principal}: ${why}`, () => {
      expect(findings({ fileOwner, principal })).to.deep.equal(isWrong ? ["wrong_owner"] : []);
    });
  }

  it("say that more key versions are kept than a rotation needs", () => {
    expect(findings({ kvnos: [1] })).to.deep.equal([]);
    expect(findings({ kvnos: [2, 3, 4] })).to.deep.equal(["old_kvnos"]);
    expect(findings({ kvnos: [3, 3, 4] })).to.deep.equal([]);
  });

  it("come together", () => {
    const worst = { filePermissions: "0666", fileOwner: "99:99", kvnos: [1, 2, 3] };

    expect(findings(worst)).to.deep.equal(["world_readable", "group_readable", "wrong_owner", "old_kvnos"]);
  });
});
