import { symlinkSync } from "node:fs";
import { expect } from "chai";
import { namedPlaces, serviceSettings } from "../../../src/agent/scan/named-places.ts";
import { useFolder } from "./folder.ts";

describe("the keytabs that a host's configuration names", () => {
  const folder = useFolder();

  /** The roots of the places. */
  const named = async (environment: NodeJS.ProcessEnv = {}) => {
    const { places, errors } = await namedPlaces({ KRB5_CONFIG: folder.at("krb5.conf"), ...environment }, []);
    expect(errors).to.deep.equal([]);
    return places.map(({ root }) => root);
  };

  describe("by the environment", () => {
    const names: [name: string, path: string | undefined][] = [
      ["/etc/a.keytab", "/etc/a.keytab"],
      ["FILE:/etc/a.keytab", "/etc/a.keytab"],
      ["WRFILE:/etc/a.keytab", "/etc/a.keytab"],
      [" FILE:/etc/a.keytab ", "/etc/a.keytab"],
      ["FILE:/var/krb5/user/%{euid}/client.keytab", "/var/krb5/user/*/client.keytab"],
      ["/home/%{username}/%{uid}%{null}.keytab", "/home/*/*.keytab"],
      ["%{TEMP}/a.keytab", "/var/tmp/a.keytab"],
      ["FILE:%{LIBDIR}/a.keytab", undefined],
      ["FILE:a.keytab", undefined],
      ["MEMORY:a", undefined],
      ["KEYRING:persistent:0", undefined],
      ["", undefined],
    ];
    for (const [name, path] of names) {
      it(`as ${JSON.stringify(name)}: ${path ?? "no file"}`, async () => {
        const expected = path === undefined ? [] : [path];

        expect(await named({ KRB5_KTNAME: name, TMPDIR: "/var/tmp" })).to.deep.equal(expected);
        expect(await named({ KRB5_CLIENT_KTNAME: name, TMPDIR: "/var/tmp" })).to.deep.equal(expected);
      });
    }
  });

  describe("by krb5.conf", () => {
    it("are the two defaults, with quotes, final signs and blanks as MIT reads them", async () => {
      folder.write(
        "krb5.conf",
        `default_keytab_name = /before/any/section
# comment
  ; [libdefaults]
[libdefaults]*
\tdefault_keytab_name* =   FILE:/etc/one.keytab  \r
  default_client_keytab_name = "/etc/the \\"client\\".keytab" ; ignored
`,
      );

      expect(await named()).to.deep.equal(["/etc/one.keytab", '/etc/the "client".keytab']);
    });

    it("are the first of a name in the section, not those of subsections or other sections", async () => {
      folder.write(
        "krb5.conf",
        `[realms]
 default_keytab_name = /wrong/section
 EXAMPLE.COM = {
   default_keytab_name = /wrong/braces
 }
[libdefaults]
 sub = {
   default_keytab_name = /wrong/braces
   more =
   {
     x = y
   }
 }
 default_keytab_name = /right
 default_keytab_name = /second
[libdefaults]
 default_keytab_name = /third
 default_client_keytab_name = /right/too
`,
      );

      expect(await named()).to.deep.equal(["/right", "/right/too"]);
    });

    it("may be in included files and folders, by the names that MIT includes, with links and circles", async () => {
      folder.write(
        "krb5.conf",
        `includedir ${folder.at("krb5.conf.d")}
include ${folder.at("krb5.conf")}
 include /leading/blank
[libdefaults]
 default_client_keytab_name = /last
`,
      );
      folder.write("krb5.conf.d/.hidden.conf", "[libdefaults]\ndefault_keytab_name = /hidden\n");
      folder.write("krb5.conf.d/a.conf.rpmsave", "[libdefaults]\ndefault_keytab_name = /left/over\n");
      folder.write("elsewhere", "[libdefaults]\ndefault_keytab_name = /linked\n");
      symlinkSync(folder.at("elsewhere"), folder.at("krb5.conf.d/b.conf"));
      folder.write("krb5.conf.d/c-d_1", "[libdefaults]\ndefault_keytab_name = /later\n");

      expect(await named()).to.deep.equal(["/linked", "/last"]);
    });

    it("is a list of files when KRB5_CONFIG is", async () => {
      const first = folder.write("first", "[libdefaults]\ndefault_client_keytab_name = /first\n");
      const second = folder.write(
        "second",
        "[libdefaults]\ndefault_client_keytab_name = /no\ndefault_keytab_name = /second\n",
      );

      expect(await named({ KRB5_CONFIG: `${first}:/nowhere:${second}` })).to.deep.equal(["/second", "/first"]);
    });

    it("may be anything at all", async () => {
      folder.write("krb5.conf", Buffer.from([0, 255, 10, 91, 10, 125, 10, 61, 10, 123]));

      expect(await named()).to.deep.equal([]);
      expect(await named({ KRB5_CONFIG: "/dev/null" })).to.deep.equal([]);
      expect(await named({ KRB5_CONFIG: folder.path })).to.deep.equal([]);
    });
  });

  it("by services are those of sssd, Samba and whoever has its variables from the host", async () => {
    const files: Record<string, string> = {
      "etc/sssd/sssd.conf":
        "[domain/a]\nkrb5_keytab = /sssd\n# krb5_keytab = /no\nkrb5_keytab_x = /no\n  ldap_krb5_keytab=/ldap\n",
      "etc/sssd/conf.d/b.conf": "krb5_keytab = /sssd/more",
      "etc/sssd/conf.d/b.conf.orig": "krb5_keytab = /no",
      "etc/samba/smb.conf": "[global]\n\tDedicated Keytab File = FILE:/samba\n; dedicated keytab file = /no\n",
      "etc/default/nfs": "export KRB5_KTNAME=FILE:/nfs # comment\n#KRB5_KTNAME=/no\nMY_KRB5_KTNAME=/no\n",
      "etc/sysconfig/httpd": 'KRB5_CLIENT_KTNAME="/httpd"\nKRB5_KTNAME=MEMORY:x\n',
      "etc/systemd/system/a.service":
        "[Service]\nEnvironment=A=1 'KRB5_KTNAME=/unit'\nEnvironment = \"KRB5_CLIENT_KTNAME=/x y\"\n",
      "etc/systemd/system/b.service.d/override.conf": "[Service]\nEnvironment=KRB5_KTNAME=/drop/in\n",
    };
    for (const [name, text] of Object.entries(files)) folder.write(name, text);
    const here = serviceSettings.map(({ files, pattern }) => ({
      files: files.map((file) => folder.at(file)),
      pattern,
    }));

    const { places, errors } = await namedPlaces({ KRB5_CONFIG: "/dev/null" }, here);

    expect(errors).to.deep.equal([]);
    const expected = ["/sssd", "/ldap", "/sssd/more", "/samba", "/nfs", "/httpd", "/unit", "/x", "/drop/in"];
    expect(places.map(({ root }) => root)).to.deep.equal(expected);
  });
});
