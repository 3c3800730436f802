import { readFile } from "node:fs/promises";
import { isWithin, type Place, placeOf } from "./place.ts";

/** Where the keytabs of the host are, those of services as distributions set them up, and what is installed beside. */
const places: readonly Place[] = [
  "/etc/krb5.keytab",
  "/etc/*keytab*",
  "/etc/krb5",
  "/etc/security/keytabs",
  "/etc/httpd",
  "/etc/apache2",
  "/etc/nginx",
  "/etc/squid",
  "/etc/postfix",
  "/etc/dovecot",
  "/etc/openldap",
  "/etc/dirsrv",
  "/var/lib/ipa/gssproxy",
  "/var/lib/gssproxy",
  "/var/lib/sss/keytabs",
  "/var/lib/samba/private",
  "/var/kerberos/krb5/user/*/client.keytab",
  "/opt",
  "/srv",
].map(placeOf);

/** The places to look in on any host, but for those that another host keeps: whoever wants that, names them. */
export async function usualPlaces(mountTable = "/proc/self/mounts"): Promise<readonly Place[]> {
  const mounts = await remoteMounts(mountTable);
  return places.filter(({ base }) => !mounts.some((mount) => isWithin(base, mount)));
}

/** Kinds of file systems that are on another host, or may be. */
const remote = /^(nfs|cifs|smb|afs|autofs|ceph|glusterfs|lustre|gpfs|beegfs|9p|fuse)/;

/** Where they are mounted, as the kernel says, which cannot hang as a question to such a file system can. */
async function remoteMounts(mountTable: string): Promise<string[]> {
  const table = await readFile(mountTable, "utf8").catch(() => "");
  const mounts = table.split("\n").map((line) => line.split(" "));
  // A host that has nothing of its own is looked through all the same.
  return mounts.filter(([, path, type = ""]) => path !== "/" && remote.test(type)).map(([, path = ""]) => path);
}
