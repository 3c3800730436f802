/**
 * SQL for what was issued and is neither revoked nor expired. An authority that is revoked takes along what it issued,
 * and all authorities below it are revoked with it.
 */
export const activeCertificates = `
  select 'certificate' as resource_type, c.id::text as resource_id,
    coalesce(nullif(c.subject ->> 'commonName', ''), c.serial_number) as name,
    c.key_algorithm, c.key_size, c.not_before, c.not_after, c.auto_renew, c.renewed_by
  from certificate c
  join certificate_authority a on a.id = c.ca_id and a.status <> 'revoked'
  join certificate_status s on s.ca_id = c.ca_id and s.serial_number = c.serial_number and s.revoked_at is null
  where c.organization_id = $1 and c.not_after > now()`;

/** Likewise of authorities; one that is disabled issues nothing, and is relied upon all the same. */
export const activeAuthorities = `
  select 'certificate_authority' as resource_type, a.id::text as resource_id, a.name, a.key_algorithm, a.key_size
  from certificate_authority a
  where a.organization_id = $1 and a.status <> 'revoked' and a.not_after > now()`;

/** Whole days: certificates begin some minutes before they are issued, for the sake of clocks that are slow. */
export const lifetimeDays = "floor(date_part('epoch', c.not_after - c.not_before) / 86400)::int";
