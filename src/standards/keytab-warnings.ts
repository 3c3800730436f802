import { enctypeName } from "./enctypes.ts";
import { type Keytab, type KeytabEntry, keyOf } from "./keytab.ts";

/** What is legal in a keytab and worth a second look, by a name for programs and in words for people. */
export interface KeytabWarning {
  readonly kind: "realm_key" | "realm_case" | "old_kvnos" | "conflicting_keys";
  readonly message: string;
}

/** A rotation leaves the version before beside the new one for a while; what is older is overdue. */
const mostKvnos = 2;

/** What there is to say of the keytab that `bytes` are, each kind once. No message holds a key. */
export function keytabWarnings(bytes: Uint8Array, { entries }: Pick<Keytab, "entries">): KeytabWarning[] {
  const warnings: KeytabWarning[] = [];
  const warn = (kind: KeytabWarning["kind"], subjects: Iterable<string>, message: (subjects: string) => string) => {
    const distinct = [...new Set(subjects)];
    if (distinct.length > 0) warnings.push({ kind, message: message(listed(distinct)) });
  };
  const realmKeys = entries.filter(isRealmKey).map(({ principal }) => principal);
  warn("realm_key", realmKeys, (names) => `holds keys that the whole realm rests on: ${names}`);
  const realms = entries.map(({ realm }) => realm).filter((realm) => realm !== realm.toUpperCase());
  warn("realm_case", realms, (names) => `has a realm that is not in upper case, perhaps misspelt: ${names}`);
  warn("old_kvnos", oldKvnos(entries), (names) => `holds more than ${mostKvnos} key versions of ${names}`);
  warn("conflicting_keys", conflicts(bytes, entries), (names) => `holds different keys for ${names}`);
  return warnings;
}

const mostListed = 3;

function listed(subjects: readonly string[]): string {
  const more = subjects.length - mostListed;
  return `${subjects.slice(0, mostListed).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** The keys that tickets, the database and the administration of a realm rest on. */
function isRealmKey({ components: [first, second] }: KeytabEntry): boolean {
  if (second === undefined) return false;
  return first === "krbtgt" || first === "kadmin" || (first === "K" && second === "M");
}

function oldKvnos(entries: readonly KeytabEntry[]): string[] {
  const kvnos = new Map<string, Set<number>>();
  for (const { principal, kvno } of entries) {
    kvnos.set(principal, (kvnos.get(principal) ?? new Set()).add(kvno));
  }
  return [...kvnos].filter(([, held]) => held.size > mostKvnos).map(([principal]) => principal);
}

/** Servers try the first of two entries that say the same, and never the other. */
function conflicts(bytes: Uint8Array, entries: readonly KeytabEntry[]): string[] {
  const keys = new Map<string, Uint8Array>();
  return entries.flatMap((entry) => {
    const subject = `${entry.principal} kvno ${entry.kvno} ${enctypeName(entry.enctype)}`;
    const key = keyOf(bytes, entry);
    const first = keys.get(subject);
    if (first === undefined) keys.set(subject, key);
    return first === undefined || Buffer.compare(first, key) === 0 ? [] : [subject];
  });
}
