/** What somebody should look at in a file by itself, whatever else is on this host or on others. */
export type FileFinding = "world_readable" | "group_readable" | "wrong_owner" | "old_kvnos";

/** What an agent says of a file, as far as findings follow from it. */
export interface FileFacts {
  /** Four octal digits. */
  readonly filePermissions: string;
  /** As in "root:apache"; a number stands for an owner without a name. */
  readonly fileOwner: string;
  readonly principal: string;
  /** Those of the principal, each once. */
  readonly kvnos: readonly number[];
}

/** For whoever is neither the owner nor in the group. */
const othersBits = 0o007;
const groupReadWriteBits = 0o060;
/** A rotation leaves the keys that tickets in use were made with beside the new ones, and no older ones. */
const mostKvnos = 2;

/** The findings of a file, in the order that they are shown in. */
export function findingsOfFile({ filePermissions, fileOwner, principal, kvnos }: FileFacts): FileFinding[] {
  const mode = Number.parseInt(filePermissions, 8);
  const applies: Record<FileFinding, boolean> = {
    world_readable: (mode & othersBits) !== 0,
    group_readable: (mode & groupReadWriteBits) !== 0,
    wrong_owner: hasWrongOwner(fileOwner.split(":", 1)[0] ?? "", principal),
    old_kvnos: new Set(kvnos).size > mostKvnos,
  };
  return (Object.keys(applies) as FileFinding[]).filter((finding) => applies[finding]);
}

/** An owner whom the host does not know, or keys of the host that another than root owns. */
function hasWrongOwner(owner: string, principal: string): boolean {
  const isRoot = owner === "root" || owner === "0";
  return !isRoot && (/^\d+$/.test(owner) || isOfHost(principal));
}

/** The host's own keys: host/NAME, or NAME$ in a domain of Windows. */
const isOfHost = (principal: string) => /^(host\/|[^/@]+\$@)/i.test(principal);
