import { createPrivateKey, randomBytes, randomUUID } from "node:crypto";
import { toJson } from "@bufbuild/protobuf";
import { expect } from "chai";
import { SignJWT } from "jose";
import { permissions } from "../../src/server/auth/roles.ts";
import type { RestMethod } from "../../src/server/wire/http-rule.ts";
import { policyOf } from "../../src/server/wire/policy.ts";
import { Client } from "../harness/client.ts";
import { type Roles, useServer } from "../harness/server.ts";
import { call, type Ending } from "./caller.ts";
import { callerOf, nameOf, type Sample, samples } from "./samples.ts";
import { allMethods } from "./services.ts";

const server = useServer({ KEYTAB_ENABLED: "true" });
const methods = (await allMethods()).filter((method) => policyOf(method).caller.case !== "public");
const sampleOf = async (method: RestMethod): Promise<Sample> => (await samples[nameOf(method)]?.(server)) ?? {};
const outcomeOf = (ending: Ending) => (ending.ok ? "ok" : ending.code);

/** Credentials of the administrator that are past their end, or were never one: the three kinds alike. */
interface Credentials {
  readonly expired: Client[];
  readonly invalid: Client[];
}

async function makeCredentials(): Promise<Credentials> {
  const bearer = (token: string) => new Client(server.url, token);
  const cookie = (value: string) => new Client(server.url, undefined, "", { cookie: `holdfast_session=${value}` });
  const { body: apiToken } = await server.admin.rest("POST", "/api/v1/api-tokens", { name: "expired" });
  const { headers } = await server.admin.rest("POST", "/api/v1/auth/session");
  const session = /holdfast_session=([^;]+)/.exec(headers.getSetCookie().join())?.[1] ?? "";
  await server.sql("update api_token set expires_at = now()");
  await server.sql("update session set expires_at = now()");
  const now = Math.floor(Date.now() / 1000);
  const token = (claims: Record<string, unknown>) => ({
    iss: "holdfast",
    aud: "holdfast",
    sub: server.admin.id,
    sub_type: "machine_identity",
    jti: randomUUID(),
    iat: now - 100,
    nbf: now - 100,
    exp: now + 3600,
    ...claims,
  });
  const pkcs8 = await server.server.core.seal.serviceKey("token-signing");
  const key = createPrivateKey({ key: pkcs8, type: "pkcs8", format: "der" });
  const sign = (claims: Record<string, unknown>) =>
    new SignJWT(token(claims)).setProtectedHeader({ alg: "EdDSA", typ: "JWT" }).sign(key);
  const encode = (plain: unknown) => Buffer.from(JSON.stringify(plain)).toString("base64url");
  const good = await sign({});
  const [head = "", , signature = ""] = good.split(".");
  return {
    expired: [bearer(await sign({ exp: now - 1 })), bearer(apiToken.token), cookie(session)],
    invalid: [
      bearer(`${encode({ alg: "none", typ: "JWT" })}.${encode(token({}))}.`),
      bearer(`${head}.${encode(token({ sub: randomUUID() }))}.${signature}`),
      bearer(await sign({ aud: "another" })),
      bearer(await sign({ iss: "another" })),
      bearer(await sign({ nbf: now + 3000 })),
      bearer("hf_nonsense"),
      bearer("nonsense"),
      cookie("nonsense"),
    ],
  };
}

const roleOf = new Map<string, string>();

/** A role that holds exactly these permissions. */
async function roleWith(held: readonly string[]): Promise<string> {
  const key = held.join();
  let name = roleOf.get(key);
  if (name === undefined) {
    name = `role-${randomBytes(6).toString("hex")}`;
    const { status, body } = await server.admin.rest("POST", "/api/v1/roles", { name, permissions: held });
    expect(status, JSON.stringify(body)).to.equal(201);
    roleOf.set(key, name);
  }
  return name;
}

const identities = new Map<string, Promise<Client>>();

/** An identity with these roles, one for all that need it. */
function identity(roles: Roles): Promise<Client> {
  const key = JSON.stringify(roles);
  const found = identities.get(key) ?? server.as(`identity-${randomBytes(6).toString("hex")}`, roles);
  identities.set(key, found);
  return found;
}

/** What a method asks for: its permission, and that of the target. */
function neededBy(method: RestMethod): string[] {
  const { caller, targetPermission } = policyOf(method);
  const declared = caller.case === "permission" ? [caller.value] : [];
  return targetPermission === "" ? declared : [...declared, targetPermission];
}

const grantable = permissions.filter((permission) => !/^(agent:report|gateway:connect)$/.test(permission));

/** The project that a sample is about, if it is about one. */
function projectOf(method: RestMethod, sample: Sample): string | undefined {
  if (/^(Secret|Keytab|RotationConfig|RotationTemplate|Link|Certificate)Service$/.test(method.parent.name))
    return (sample["project_id"] as string) ?? server.projectId;
  return method.parent.name === "ProjectService" ? (sample["id"] as string | undefined) : undefined;
}

describe("Every method that is not public", () => {
  let credentials: Credentials;
  let elsewhere = "";
  before(async () => {
    credentials = await makeCredentials();
    elsewhere = (await server.admin.rest("POST", "/api/v1/projects", { name: "elsewhere" })).body.id;
  });

  for (const method of methods) {
    describe(method.name, () => {
      const { caller, inProject } = policyOf(method);
      const needed = neededBy(method);

      it("tells a missing, an expired and an invalid credential apart, of each kind", async () => {
        const sample = await sampleOf(method);

        expect(outcomeOf(await call(server.anonymous, method, sample))).to.equal("AUTH_REQUIRED");
        for (const client of credentials.expired) {
          expect(outcomeOf(await call(client, method, sample))).to.equal("AUTH_EXPIRED");
        }
        for (const client of credentials.invalid) {
          expect(outcomeOf(await call(client, method, sample))).to.equal("AUTH_INVALID");
        }
      });

      it("is answered to the right caller", async () => {
        expect(outcomeOf(await call(await callerOf(server, method), method, await sampleOf(method)))).to.equal("ok");
      });

      if (caller.case === "permission") {
        it("is refused to who holds every other permission, and the permission is named", async () => {
          const others = await identity({ roles: [await roleWith(grantable.filter((each) => each !== caller.value))] });

          const ending = await call(others, method, await sampleOf(method));

          expect(ending).to.include({ ok: false, code: "PERMISSION_DENIED" });
          expect(ending.ok ? "" : ending.message).to.match(new RegExp(`^permission ${caller.value} is required`));
        });

        it("asks for no other permission, but for what it would give away", async () => {
          const exact = await identity({ roles: [await roleWith(needed)] });

          const ending = await call(exact, method, await sampleOf(method));

          const refusedFor = ending.ok ? "" : `${ending.code}: ${ending.message}`;
          const gives = /^(Create|Update|Delete)(MachineIdentity|User|Role|Organization)$/.test(method.name);
          if (caller.value === "agent:report") {
            // By design: an agent is an identity that enrolled as one, whatever else is given its permission.
            expect(refusedFor).to.equal("PERMISSION_DENIED: the caller is not an enrolled agent");
          } else if (caller.value === "gateway:connect" && method.name !== "Register") {
            // By design too: a gateway is known to the identity only that it registered as.
            expect(refusedFor).to.equal("RESOURCE_NOT_FOUND: gateway not found");
          } else if (gives && !ending.ok) {
            expect(refusedFor).to.match(/^PERMISSION_DENIED: (permission|only administrators)/);
            expect(refusedFor).not.to.include(caller.value);
          } else expect(refusedFor).to.equal("");
        });

        it(
          inProject
            ? "is opened by a binding at its project, and by none elsewhere"
            : "is opened by no binding at a project",
          async () => {
            const sample = await sampleOf(method);
            const project = inProject ? projectOf(method, sample) : undefined;
            const role = await roleWith(needed);
            const stranger = await identity({ projectRoles: [{ project_id: elsewhere, role }] });

            const refused = await call(stranger, method, sample);

            if (inProject && project === undefined && refused.ok) {
              expect(JSON.stringify(toJson(method.output, refused.message))).not.to.include(server.projectId);
            } else if (inProject && project === undefined) {
              expect(refused).to.include({ code: "RESOURCE_NOT_FOUND" });
            } else expect(refused).to.include({ ok: false, code: "PERMISSION_DENIED" });
            if (project === undefined) return;
            const insider = await identity({ projectRoles: [{ project_id: project, role }] });
            expect(outcomeOf(await call(insider, method, sample))).to.equal("ok");
          },
        );
      }

      if (caller.case === "role") {
        it("is refused to who holds every permission but not the role", async () => {
          const others = await identity({ roles: ["admin"] });

          const ending = await call(others, method, await sampleOf(method));

          expect(ending).to.include({
            ok: false,
            code: "PERMISSION_DENIED",
            message: `role ${caller.value} is required`,
          });
        });

        it("asks for nothing but the role", async () => {
          const holder = await identity({ roles: [caller.value] });

          expect(outcomeOf(await call(holder, method, await sampleOf(method)))).to.equal("ok");
        });
      }
    });
  }
});
