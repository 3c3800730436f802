import type { Client } from "@connectrpc/connect";
import { type User, UserSchema, UserService } from "../../../gen/ts/holdfast/auth/v1/user_service_pb.ts";
import type { Api } from "../../client/api.ts";
import { allPages } from "../../client/pages.ts";
import { askConsent } from "../ask.ts";
import type { Json } from "../commands/options.ts";
import { isId, theOnly } from "../find.ts";
import { maskOf } from "../mask.ts";
import { note, printOnce, printRecord, printRecords, timeText } from "../output.ts";
import { findProjectRoles, projectRolesText } from "../project-roles.ts";
import { openSession } from "../session.ts";

export interface UserListOptions extends Json {
  readonly search?: string;
  readonly status?: string;
}
export interface UserOptions extends Json {
  readonly email?: string;
  readonly displayName?: string;
  readonly role?: string[];
  readonly projectRole?: string[];
  readonly rateLimit?: number;
  readonly yes?: boolean;
}

export async function list({ search, status, ...options }: UserListOptions): Promise<void> {
  const api = openSession();
  const users = await allPages((page) => api(UserService).listUsers({ search, status, ...page }));
  printRecords(
    UserSchema,
    users,
    [
      ["USERNAME", ({ username }) => username],
      ["DISPLAY NAME", ({ displayName }) => displayName],
      ["STATUS", ({ status }) => status],
      ["ROLES", ({ roles }) => roles.join(", ")],
      ["LAST LOGIN", ({ lastAuthenticatedAt }) => timeText(lastAuthenticatedAt)],
      ["ID", ({ id }) => id],
    ],
    options,
  );
}

export async function create(username: string, options: UserOptions): Promise<void> {
  const api = openSession();
  const { email, displayName = "", role: roles = [], rateLimit: rateLimitPerMinute } = options;
  const projectRoles = await findProjectRoles(api, options.projectRole);
  const request = { username, email, displayName, roles, projectRoles, rateLimitPerMinute };
  showEnrollment(await api(UserService).createUser(request), options);
}

/** An empty text clears an email, and takes all roles of its kind away. */
export async function update(username: string, options: UserOptions): Promise<void> {
  const api = openSession();
  const { email, displayName, role: roles, projectRole, rateLimit: rateLimitPerMinute } = options;
  const projectRoles = projectRole && (await findProjectRoles(api, projectRole));
  const id = await findUserId(api, username);
  const user = await api(UserService).updateUser({
    id,
    email: email || undefined,
    displayName,
    roles: roles ?? [],
    projectRoles: projectRoles ?? [],
    rateLimitPerMinute,
    updateMask: maskOf({ email, displayName, roles, projectRoles, rateLimitPerMinute }),
  });
  show(user, options);
}

type Users = Client<typeof UserService>;

/** A command that does one thing to a user and shows the record. */
const onUser =
  (act: (users: Users, id: string) => Promise<User>) =>
  async (username: string, options: Json): Promise<void> => {
    const api = openSession();
    show(await act(api(UserService), await findUserId(api, username)), options);
  };

export const get = onUser((users, id) => users.getUser({ id }));
export const disable = onUser((users, id) => users.disableUser({ id }));
export const enable = onUser((users, id) => users.enableUser({ id }));

export async function resetEnrollment(username: string, options: Json): Promise<void> {
  const api = openSession();
  const id = await findUserId(api, username);
  showEnrollment(await api(UserService).resetUserEnrollment({ id }), options);
}

export async function remove(username: string, { yes }: UserOptions): Promise<void> {
  const api = openSession();
  const id = await findUserId(api, username);
  if (!yes && !(await askConsent(`Remove the user ${username}?`, "agree with --yes")))
    return note("nobody was removed");
  await api(UserService).deleteUser({ id });
  note(`removed ${username}`);
}

async function findUserId(api: Api, username: string): Promise<string> {
  if (isId(username)) return username;
  const found = await allPages((page) => api(UserService).listUsers({ search: username, ...page }));
  const named = found.filter((user) => user.username === username.toLowerCase());
  return theOnly(`user ${username}`, named, ({ id }) => id, "say which by its id").id;
}

function showEnrollment(user: User, options: Json): void {
  if (options.json) return show(user, options);
  const { username, enrollmentToken, enrollmentExpiresAt } = user;
  const explanation = `the token that ${username} enrolls with, by holdfast enroll, is shown this once; it ends ${timeText(enrollmentExpiresAt)}`;
  printOnce(enrollmentToken, explanation);
}

function show(user: User, options: Json): void {
  printRecord(
    UserSchema,
    user,
    [
      ["username", ({ username }) => username],
      ["id", ({ id }) => id],
      ["display name", ({ displayName }) => displayName],
      ["email", ({ email }) => email ?? "-"],
      ["status", ({ status }) => status],
      ["roles", ({ roles }) => roles.join(", ")],
      ["project roles", ({ projectRoles }) => projectRolesText(projectRoles)],
      [
        "rate limit",
        ({ rateLimitPerMinute }) => (rateLimitPerMinute === undefined ? "-" : `${rateLimitPerMinute} a minute`),
      ],
      ["last login", ({ lastAuthenticatedAt }) => timeText(lastAuthenticatedAt)],
      ["created", ({ createdAt }) => timeText(createdAt)],
    ],
    options,
  );
}
