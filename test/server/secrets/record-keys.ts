/** The keys of a secret in a list (spec "List item", gaps 2.1). */
export const listItemKeys = [
  "id name type description version tags rotation created_at updated_at key project_id",
  "environment status expires_at",
].flatMap((line) => line.split(" "));

/** The keys of the metadata of a secret: all but the value. */
export const metadataKeys = [...listItemKeys, "created_by", "metadata", "archived_at", "deleted_at"];

/** The keys of `rotation` in metadata and in the full record. */
export const rotationKeys = ["enabled", "interval_days", "last_rotated", "next_rotation"];
