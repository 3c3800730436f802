import { randomUUID } from "node:crypto";
import { createContextKey, type HandlerContext } from "@connectrpc/connect";
import type { AuditEvent } from "../audit/audit-writer.ts";
import { type Database, type EntityManager, inTransaction, type Queries, run } from "../db/database.ts";
import { authRequired, type FieldFault, permissionDenied, type Refusal } from "../errors.ts";
import type { Identity } from "./identity.ts";
import type { MethodPolicy } from "./policy.ts";

/** What every door knows of a request before it reads a body. */
export interface Source {
  readonly door: "rest" | "rpc";
  readonly requestId: string;
  /** The HTTP method, as in "POST". */
  readonly method: string;
  /** The client's address, taken from X-Forwarded-For only behind trusted proxies. */
  readonly address: string;
  header(name: string): string | undefined;
  /** Whether a page of this Origin is one that this server sent. */
  isOwnOrigin(origin: string): boolean;
}

/** What a call was about, for its audit event. */
export interface Subject {
  /** The kind of resource, where it is not the one that the action begins with. */
  readonly type?: string;
  readonly id?: string;
  readonly name?: string;
  readonly projectId?: string;
  /** What the caller gave as the reason. */
  readonly reason?: string;
  /** What else is worth keeping; never a value. */
  readonly details?: Record<string, unknown>;
}

/** One call on its way through the chain, whatever door it came through. */
export class Call implements Queries {
  readonly source: Source;
  readonly db: Database;
  readonly now = new Date();
  /** Unset until the method is known, and for paths that name none. */
  policy: MethodPolicy | undefined;
  identity: Identity | undefined;
  /** Why there is no identity, when a credential was presented. */
  anonymousBecause: Refusal | undefined;
  /** Why the message could not be read; told only after who and whether. */
  unreadableBecause: Refusal | undefined;
  /** What was left out of the message because it is at fault; told with the rules that the rest of it breaks. */
  readonly faults: FieldFault[] = [];
  /** Sent with the answer, whatever it is. */
  readonly headers: Record<string, string> = {};
  /** The values of Set-Cookie. */
  readonly cookies: string[] = [];
  /** Replaces the declared status of a REST answer. */
  status: number | undefined;
  /** What is recorded; the method may name another action, or none. */
  action = "";
  subject: Subject = {};
  /** What the method waited for before its transaction opened. */
  prepared: Promise<unknown> | undefined;
  /** Events beside the call's own, committed with it. */
  readonly events: AuditEvent[] = [];
  #em: EntityManager | undefined;
  readonly #afterCommit: (() => Promise<void>)[] = [];
  #inTransaction = false;
  #authorized = false;

  constructor(source: Source, db: Database) {
    this.source = source;
    this.db = db;
    this.headers["x-request-id"] = source.requestId;
  }

  /** Who calls. Throws AUTH_REQUIRED for methods that anybody may call. */
  get caller(): Identity {
    if (this.identity === undefined) throw this.anonymousBecause ?? authRequired();
    return this.identity;
  }

  /** Sees the rows of the caller's organization only; in a transaction unless the method has no side effects. */
  get em(): EntityManager {
    this.#em ??= this.identity === undefined ? this.db.forkWithoutTenant() : this.db.fork(this.identity.organizationId);
    return this.#em;
  }

  /** Runs `work` in one transaction, and the listeners of `afterCommit` when it has committed. */
  async inTransaction<T>(work: () => Promise<T>): Promise<T> {
    this.#inTransaction = true;
    const result = await inTransaction(this.em, work);
    await Promise.all(this.#afterCommit.map((listener) => listener()));
    return result;
  }

  query<Row>(text: string, values: readonly unknown[]): Promise<Row[]> {
    return this.#inTransaction ? run<Row>(this.em, text, values) : this.db.query<Row>(text, values);
  }

  /** Runs after the commit and before the answer, and not at all when there is none. Must not throw. */
  afterCommit(listener: () => Promise<void>): void {
    this.#afterCommit.push(listener);
  }

  /** Whether the caller holds `permission` at the organization or in that project. */
  may(permission: string, projectId: string): boolean {
    const { permissions, projectPermissions } = this.caller;
    return permissions.has(permission) || projectPermissions.get(projectId)?.has(permission) === true;
  }

  /** Whether the caller holds the declared permission at the organization or in that project. */
  mayDeclared(projectId: string): boolean {
    return this.may(this.declaredPermission, projectId);
  }

  /**
   * Refuses unless the caller holds the permission, the declared one unless another is named, in that project; for what
   * belongs to no project, at the organization.
   */
  authorizeIn(projectId: string | null, permission = this.declaredPermission): void {
    this.#authorized = true;
    const held = projectId === null ? this.caller.permissions.has(permission) : this.may(permission, projectId);
    if (!held) throw permissionDenied(permission, projectId ?? undefined);
  }

  /** The projects in which the caller holds the declared permission; undefined means all of the organization. */
  get visibleProjects(): string[] | undefined {
    this.#authorized = true;
    const permission = this.declaredPermission;
    const { permissions, projectPermissions } = this.caller;
    if (permissions.has(permission)) return undefined;
    return [...projectPermissions].filter(([, held]) => held.has(permission)).map(([projectId]) => projectId);
  }

  /** Whether the question "in which project" was answered, for methods that a binding at a project opens. */
  get decided(): boolean {
    return this.#authorized || this.caller.permissions.has(this.declaredPermission);
  }

  /** The first call under this Idempotency-Key was authorized, and nothing is done again. */
  authorizedByReplay(): void {
    this.#authorized = true;
  }

  private get declaredPermission(): string {
    const caller = this.policy?.caller;
    if (caller?.case !== "permission") throw new Error("the method declares no permission");
    return caller.value;
  }

  /** The permission that the target's project asks for beside the declared one. */
  get targetPermission(): string {
    return this.policy?.targetPermission ?? "";
  }

  /** Notes what the call is about; later notes add to earlier ones. */
  about(subject: Subject): void {
    this.subject = { ...this.subject, ...subject };
  }

  /** An event of this call beside its own, for what it did on the way. */
  alsoRecord(action: string, subject: Subject, bySystem = false): void {
    this.events.push(this.event(action, "success", { subject, bySystem }));
  }

  /** The audit event of this call. */
  event(
    action: string,
    outcome: AuditEvent["outcome"],
    given: { subject?: Subject; bySystem?: boolean; reason?: string } = {},
  ): AuditEvent {
    const { subject = this.subject, bySystem = false } = given;
    const reason = given.reason ?? subject.reason ?? "";
    const { identity, source } = this;
    const usedToken = identity?.credential?.type === "api_token" ? identity.credential.id : undefined;
    const organizationId = identity?.organizationId ?? this.organizationId;
    if (organizationId === undefined) throw new Error("an audit event needs an organization");
    return {
      organizationId,
      occurredAt: this.now,
      action,
      outcome,
      actorType: bySystem ? "system" : actorTypeOf(identity),
      actorId: bySystem ? null : (identity?.id ?? null),
      actorName: bySystem ? null : (identity?.name ?? null),
      resourceType: subject.type ?? action.split(".", 1)[0] ?? "",
      resourceId: subject.id ?? null,
      resourceName: subject.name ?? null,
      projectId: subject.projectId ?? null,
      reason: reason === "" ? null : reason,
      requestId: source.requestId,
      sourceIp: source.address,
      userAgent: source.header("user-agent")?.slice(0, 512) ?? null,
      details: { ...subject.details, ...(usedToken === undefined ? {} : { api_token_id: usedToken }) },
    };
  }

  /** Whose audit log an anonymous call belongs to, once the method knows. */
  organizationId: string | undefined;
}

/** Agents and gateways are machine identities by their role, and are told apart in the audit log (G-15.1). */
function actorTypeOf(identity: Identity | undefined): AuditEvent["actorType"] {
  if (identity === undefined) return "anonymous";
  return (["agent", "gateway"] as const).find((role) => identity.roles.has(role)) ?? identity.type;
}

/** Where the doors leave the call for the chain and the methods. */
export const callKey = createContextKey<Call | undefined>(undefined, { description: "call" });

/** The call behind a method's context. */
export function callOf(context: Pick<HandlerContext, "values">): Call {
  const call = context.values.get(callKey);
  if (call === undefined) throw new Error("there is no call in this context");
  return call;
}

const usableRequestId = /^[A-Za-z0-9._-]{1,128}$/;

/** The call behind a request on its way through the chain. */
export const callIn = ({ contextValues }: { readonly contextValues: HandlerContext["values"] }): Call =>
  callOf({ values: contextValues });

/** The caller's X-Request-Id when it is usable (G-0.12), otherwise a new one. */
export function requestIdFrom(header: string | undefined): string {
  return header !== undefined && usableRequestId.test(header) ? header : randomUUID();
}
