import type { ServiceError } from "@grpc/grpc-js";
import { status as code } from "@grpc/grpc-js";
import { expect } from "chai";
import { events, firstStatus, next, roles, statuses } from "../../../src/server/gateways/transitions.ts";
import type { Client } from "../../harness/client.ts";
import { monitorRound } from "../../harness/failover.ts";
import { TestGateway } from "../../harness/gateway.ts";
import { randomFrom } from "../../harness/random.ts";
import { useServer } from "../../harness/server.ts";
import { FailoverModel, type Modelled } from "./failover-model.ts";

describe("The table of transitions", () => {
  it("is that of gaps 8.6, and changes nothing for any other event", () => {
    const changes = roles.flatMap((role) =>
      statuses.flatMap((status) =>
        events
          .filter((event) => next(role, status, event) !== status)
          .map((event) => `${role} ${status} --${event}--> ${next(role, status, event)}`),
      ),
    );

    expect(changes).to.have.members([
      "primary active --silence--> failed",
      "primary active --deactivate--> standby",
      "primary active --mark_failed--> failed",
      "primary standby --silence--> failed",
      "primary standby --mark_failed--> failed",
      "primary standby --failback--> active",
      "primary failed --failback--> active",
      "dr-standby standby --activate_dr--> active",
      "dr-standby active --failback--> standby",
      "dr-standby active --deactivate--> standby",
      "dr-standby active --mark_failed--> standby",
      "dr-standby active --silence--> failed",
      "dr-standby standby --silence--> failed",
      "dr-standby failed --heartbeat--> standby",
    ]);
  });

  it("lets only a primary come into service by its registration, where nobody is and it replaces nobody", () => {
    const firsts = roles.flatMap((role) =>
      [true, false].flatMap((isHeld) =>
        [true, false].map((isReplacement) => [
          role,
          isHeld,
          isReplacement,
          firstStatus(role, { isHeld, isReplacement }),
        ]),
      ),
    );

    expect(firsts.filter(([, , , status]) => status === "active")).to.deep.equal([["primary", false, false, "active"]]);
  });
});

const seed = Number(process.env["HOLDFAST_TEST_SEED"] ?? Date.now() % 1_000_000_000);
const rounds = Number(process.env["HOLDFAST_TEST_EVENTS"] ?? 200);

/** What happened, what the model says that comes of it, and what did: how a gateway or an operator was answered. */
type Happened = readonly [string, string | number, string | number];

/** What a refused call of a gateway says, in the words of the model. */
const refusals: Readonly<Record<number, string>> = {
  [code.ALREADY_EXISTS]: "taken",
  [code.FAILED_PRECONDITION]: "retired",
};

const answered = (call: Promise<unknown>) =>
  call.then(
    () => "ok",
    (error: ServiceError) => refusals[error.code] ?? error.message,
  );

describe(`Gateways to which anything happens (HOLDFAST_TEST_SEED=${seed})`, function () {
  this.timeout(120_000);
  // So long that it takes more than a slow machine to fall silent.
  const timeout = 3600;
  const server = useServer({ HEARTBEAT_TIMEOUT_SECONDS: String(timeout) });
  const random = randomFrom(seed);
  const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)] as T;
  const environments = ["one", "two"];
  const model = new FailoverModel(timeout);
  const gateways = new Map<Modelled, TestGateway>();
  /** Tokens as they were seen, by environment and by the model's count of them. */
  const seen = new Map<string, bigint[]>();
  let operator: Client;
  before(async () => {
    operator = await server.as("operator", ["gateway:admin"]);
  });

  const post = async (path: string, body: unknown) => {
    const { status } = await operator.rest("POST", `/api/v1/admin/${path}`, body);
    return status;
  };
  /** Mostly one that is not retired, and of the role where there is one. */
  const known = (role?: Modelled["role"]) => {
    const living = model.gateways.filter((each) => !each.retired && each.role === (role ?? each.role));
    const one = pick(living.length === 0 || random() < 0.1 ? model.gateways : living);
    return [one, gateways.get(one) as TestGateway] as const;
  };
  const mostDrGateways = 2;

  const happenings: Readonly<Record<string, () => Promise<Happened>>> = {
    register: async () => {
      const environment = pick(environments);
      const isFull = model.of(environment).length > mostDrGateways;
      const role = isFull ? "primary" : pick(["primary", "dr-standby"] as const);
      const gateway = await TestGateway.prepare(server, { environment, role });
      const expected = model.register(gateway.name, environment, role);
      const actual = await answered(gateway.register());
      const modelled = model.gateways.at(-1);
      if (expected === "ok" && modelled !== undefined) gateways.set(modelled, gateway);
      return [`${role} of ${environment}`, expected, actual];
    },
    "register again": async () => {
      const [one, gateway] = known();
      return [one.name, model.registerAgain(one, false), await answered(gateway.register())];
    },
    restart: async () => {
      const [one, gateway] = known();
      return [one.name, model.registerAgain(one, true), await answered(gateway.restart())];
    },
    heartbeat: async () => {
      const [one, gateway] = known(pick(["dr-standby", undefined]));
      const expected = model.heartbeat(one);
      const actual = await answered(gateway.heartbeat());
      if (actual === "ok") {
        const isActive = one.status === "active";
        expect([gateway.status, gateway.token !== undefined, gateway.standing?.standDown]).to.deep.equal([
          one.status,
          isActive,
          one.deactivated,
        ]);
      }
      return [one.name, expected, actual];
    },
    "fall silent": async () => {
      const [one, gateway] = known(pick(["primary", undefined]));
      const seconds = pick([timeout + 1, 3 * timeout + 1]);
      model.silence(one, seconds);
      await gateway.fallSilent(seconds);
      await monitorRound(server);
      return [`${one.name} for ${seconds} s`, "", ""];
    },
    "activate-dr": async () => {
      const environment = pick(environments);
      const [named, gateway] = random() < 0.3 ? known() : [undefined, undefined];
      const expected = model.activateDr(environment, named);
      const body = gateway === undefined ? {} : { gateway_id: gateway.id };
      return [`${environment} ${named?.name ?? ""}`, expected, await post(`failover/${environment}/activate-dr`, body)];
    },
    failback: async () => {
      const environment = pick(environments);
      return [environment, model.failback(environment), await post(`failover/${environment}/failback`, {})];
    },
    deactivate: async () => {
      const [one, { id }] = known();
      const markFailed = random() < 0.5;
      const expected = model.deactivate(one, markFailed);
      const actual = await post(`gateways/${id}/deactivate`, { mark_failed: markFailed });
      return [`${one.name} ${String(markFailed)}`, expected, actual];
    },
    retire: async () => {
      const [one, { id }] = known();
      const expected = model.retire(one);
      const { status } = await operator.rest("DELETE", `/api/v1/admin/gateways/${id}`);
      return [one.name, expected, status];
    },
  };
  /** What happens more often than once in a while. */
  const deck = [
    ...Object.keys(happenings),
    ...Array.from({ length: 3 }, () => ["heartbeat", "fall silent", "activate-dr", "failback"]).flat(),
  ];

  it("stand as the table says after every event, one active at most, which holds the lock under tokens that rise", async () => {
    const history: string[] = [];
    const missing = new Set(["register", "restart", "heartbeat", "activate-dr", "failback", "deactivate", "retire"]);
    for (let round = 0; round < rounds || missing.size > 0; round += 1) {
      const happening = model.gateways.length === 0 ? "register" : pick(deck);
      const [what, expected, actual] = await (happenings[happening] as () => Promise<Happened>)();
      history.push(`${happening} ${what}: ${actual}`);

      const story = () => history.slice(-20).join("\n");
      expect(actual, story()).to.equal(expected);
      expect(await listed(), story()).to.deep.equal(modelled());
      await checkLocks(story);
      if (actual === "ok" || actual === 200 || actual === 204) missing.delete(happening);
    }
  });

  async function listed(): Promise<string[]> {
    const { body } = await operator.rest("GET", "/api/v1/admin/gateways");
    return body
      .map((each: Record<string, unknown>) =>
        [each["name"], each["activation_status"], each["holds_lock"], each["deactivated_at"] !== null].join(" "),
      )
      .toSorted();
  }

  const modelled = () =>
    model.gateways
      .filter(({ retired }) => !retired)
      .map(({ name, status, deactivated }) => [name, status, status === "active", deactivated].join(" "))
      .toSorted();

  async function checkLocks(story: () => string): Promise<void> {
    const rows = await server.sql(
      `select l.environment, l.fencing_token as token, g.name as holder,
         (select array_agg(a.name) from gateway a
          where a.environment = l.environment and a.activation_status = 'active') as active
       from environment_lock l left join gateway g on g.id = l.holder_id`,
    );
    for (const { environment, token, holder, active } of rows) {
      expect(active ?? [], story()).to.deep.equal(holder === null ? [] : [holder]);
      if (token === null) continue;
      const tokens = seen.get(environment) ?? [];
      seen.set(environment, tokens);
      const isNew = tokens.length < (model.tokens.get(environment) ?? 0);
      const last = tokens.at(-1) ?? 0n;
      expect(isNew ? BigInt(token) > last : BigInt(token) === last, story()).to.equal(true);
      if (isNew) tokens.push(BigInt(token));
    }
  }
});
