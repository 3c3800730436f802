import { configurationText } from "./configuration-text.ts";
import { pathOfKeytabName } from "./keytab-name.ts";
import { Krb5Conf } from "./krb5-conf.ts";
import { type Place, placeOf } from "./place.ts";
import type { ScanError } from "./scan.ts";
import { Search } from "./search.ts";

/** Settings of services that name a keytab, and the files that they are in. */
interface Setting {
  readonly files: readonly string[];
  readonly pattern: RegExp;
}

export const serviceSettings: readonly Setting[] = [
  {
    files: ["/etc/sssd/sssd.conf", "/etc/sssd/conf.d/*.conf"],
    pattern: /^[ \t]*(?:krb5_keytab|ldap_krb5_keytab)[ \t]*=(.*)$/gm,
  },
  { files: ["/etc/samba/smb.conf"], pattern: /^[ \t]*dedicated keytab file[ \t]*=(.*)$/gim },
  {
    files: ["/etc/default/*", "/etc/sysconfig/*"],
    pattern: /^[ \t]*(?:export[ \t]+)?KRB5_(?:CLIENT_)?KTNAME=["']?([^"'\s]*)/gm,
  },
  {
    files: ["/etc/systemd/system/*.service", "/etc/systemd/system/*.service.d/*.conf"],
    pattern: /^[ \t]*Environment[ \t]*=.*KRB5_(?:CLIENT_)?KTNAME=([^"'\s]*)/gm,
  },
];

/** The places that the environment and this host's configuration name, and what of that could not be read. */
export async function namedPlaces(
  environment: NodeJS.ProcessEnv,
  settings = serviceSettings,
): Promise<{ places: Place[]; errors: ScanError[] }> {
  const configuration = await Krb5Conf.read(environment);
  const names = [
    environment["KRB5_KTNAME"],
    environment["KRB5_CLIENT_KTNAME"],
    configuration.valueOf("libdefaults", "default_keytab_name"),
    configuration.valueOf("libdefaults", "default_client_keytab_name"),
    ...(await valuesOf(settings, configuration.errors)),
  ];
  const paths = names.map((name) => (name === undefined ? name : pathOfKeytabName(name, environment)));
  return { places: paths.filter((path) => path !== undefined).map(placeOf), errors: configuration.errors };
}

async function valuesOf(settings: readonly Setting[], errors: ScanError[]): Promise<string[]> {
  const values: string[] = [];
  for (const { files, pattern } of settings) {
    for (const file of files) {
      for await (const sight of new Search(placeOf(file), { otherFileSystems: true }).sights()) {
        if (sight.kind === "fault") errors.push({ path: sight.path, reason: sight.reason });
        if (sight.kind !== "file") continue;
        const text = await configurationText(sight.path, errors);
        values.push(...[...text.matchAll(pattern)].map(([, value = ""]) => value));
      }
    }
  }
  return values;
}
