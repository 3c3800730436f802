import type { TestServer } from "../../harness/server.ts";

/** How many of each an installation has; roles and what follows are those of its first organization. */
export interface Population {
  readonly organizations: number;
  readonly roles: number;
  readonly users: number;
  readonly machineIdentities: number;
  readonly apiTokens: number;
  readonly sessions: number;
  readonly revokedTokens: number;
}

/**
 * Adds so many of each to the database, named `name` and a number. Each user holds three roles, each hundredth 50; of the
 * credentials some have ended, and a handful so long ago that they are to be purged.
 */
export async function populate(server: TestServer, name: string, population: Population): Promise<void> {
  const { organizations, roles, users, machineIdentities, apiTokens, sessions, revokedTokens } = population;
  const [{ id }] = await server.sql("select id from organization where instance");
  await server.sql(`
    insert into organization (name) select '${name}-' || n from generate_series(1, ${organizations}) n;

    insert into role (organization_id, name, permissions)
    select '${id}', '${name}-' || n, '{secret:read,keytab:read}' from generate_series(1, ${roles}) n;

    create temp table holder as select uuidv7() as id, '${name}-' || n as name, n from generate_series(1, ${users}) n;

    insert into user_account (id, organization_id, username, email, display_name, status, srp_group, srp_salt, srp_verifier)
    select id, '${id}', name, name || '@example.com', name,
      case n % 100 when 1 then 'pending' when 2 then 'disabled' else 'active' end,
      'rfc5054-3072', decode(md5(name), 'hex'), decode(repeat(md5(name), 26), 'hex')
    from holder;

    insert into data_key (record_id, organization_id, wrapped)
    select id, '${id}', decode(repeat(md5(name), 4), 'hex') from holder;

    insert into role_binding (organization_id, identity_id, role, project_id)
    select '${id}', id, '${name}-' || (7 * n + binding) % ${roles} + 1, case when binding % 2 = 0 then uuidv7() end
    from holder, generate_series(1, case when n % 100 = 0 then 50 else 3 end) binding;

    insert into machine_identity (organization_id, name)
    select '${id}', '${name}-' || n from generate_series(1, ${machineIdentities}) n;

    insert into client_secret (organization_id, machine_identity_id, prefix, hash)
    select organization_id, id, 'hfcs_test', sha256(name::bytea) from machine_identity where name like '${name}-%';

    insert into api_token (organization_id, owner_id, name, prefix, hash, expires_at, revoked_at)
    select '${id}', holder.id, 'ci', 'hf_test', sha256(('${name}' || t)::bytea),
      now() + case when t <= 5 then -100 else t % 400 - 80 end * interval '1 day',
      case when t % 50 = 7 then now() - t % 80 * interval '1 day' end
    from generate_series(1, ${apiTokens}) t join holder on n = t % ${users} + 1;

    insert into session (organization_id, identity_id, hash, credential_version, expires_at)
    select '${id}', holder.id, sha256(('${name}' || s)::bytea), 1,
      now() + case when s <= 5 then -200 else s % 170 - 160 end * interval '1 hour'
    from generate_series(1, ${sessions}) s join holder on n = s % ${users} + 1;

    insert into revoked_token (id, organization_id, expires_at)
    select uuidv7(), '${id}', now() + case when t <= 5 then -25 else t % 40 - 20 end * interval '1 hour'
    from generate_series(1, ${revokedTokens}) t`);
}
