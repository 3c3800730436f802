import { expect } from "chai";
import { usualPlaces } from "../../../src/agent/scan/usual-places.ts";
import { useFolder } from "./folder.ts";

describe("the places where keytabs usually are", () => {
  const folder = useFolder();
  const rootsBeside = async (...mounts: string[]) =>
    (await usualPlaces(folder.write("mounts", mounts.map((mount) => `${mount} rw 0 0\n`).join("")))).map(
      ({ root }) => root,
    );

  it("are those of the host, of services and of what is installed beside", async () => {
    const roots = await rootsBeside("/dev/vda / ext4", "/dev/vdb /srv xfs", "none /opt/x nfs4");

    expect(roots).to.include.members(["/etc/krb5.keytab", "/etc/*keytab*", "/var/lib/samba/private", "/opt", "/srv"]);
  });

  it("are not on file systems of other hosts, unless the host has no other", async () => {
    const roots = await rootsBeside(
      "host:/ / nfs4",
      "host:/srv /srv nfs4",
      "//host/opt /opt cifs",
      "s /etc/krb5 fuse.sshfs",
    );

    expect(roots).not.to.include.members(["/srv"]).and.not.to.include.members(["/opt"]);
    expect(roots).not.to.include("/etc/krb5");
    expect(roots).to.include.members(["/etc/krb5.keytab", "/etc/*keytab*", "/etc/httpd"]);
  });

  it("are all of them where nobody says what is mounted", async () => {
    expect((await usualPlaces(folder.at("nothing"))).length).to.equal((await rootsBeside("/dev/vda / ext4")).length);
  });
});
