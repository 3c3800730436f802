import { isIPv6 } from "node:net";

/** How a secret holds a login: the password alone, or all that a client needs. */
export const valueFormats = ["password", "connection_string", "json"] as const;

export interface Login {
  readonly username: string;
  readonly password: string;
}

/** Where the login is for. */
interface Place {
  readonly scheme: string;
  readonly host: string;
  readonly port: number;
  /** That of the value before if left out, if it had one. */
  readonly database?: string;
  /** Of a connection string. */
  readonly parameters?: Readonly<Record<string, string>>;
}

/** What a connection string is made of, each part as it stands there. */
const connectionString =
  /^(?<scheme>[a-z][a-z0-9+.-]*):\/\/(?<username>[^:@/?#]*):(?<password>[^:@/?#]*)@[^/?#]*(\/(?<database>[^?#]*))?(\?(?<query>[^#]*))?$/;

/**
 * A value that holds the login. What the value before holds beside stays: other keys of an object, and the scheme and other
 * parameters of a connection string.
 */
export function composeValue(
  format: (typeof valueFormats)[number],
  login: Login,
  place: Place,
  previousValue: string,
): string {
  if (format === "password") return login.password;
  return format === "json" ? jsonOf(login, place, previousValue) : connectionStringOf(login, place, previousValue);
}

/** The login in a value, whatever its format; all of it is the password of a value that is of no other. */
export function readLogin(value: string): Partial<Login> & Pick<Login, "password"> {
  return loginInObject(objectIn(value)) ?? loginInConnectionString(value) ?? { password: value };
}

function jsonOf(login: Login, { host, port, database }: Place, previousValue: string): string {
  const { username, password } = login;
  const own = { username, password, host, port, ...(database === undefined ? {} : { database }) };
  return JSON.stringify({ ...objectIn(previousValue), ...own });
}

function connectionStringOf(login: Login, place: Place, previousValue: string): string {
  const { scheme = place.scheme, database = "", query = "" } = partsOf(previousValue);
  const credentials = `${encodeURIComponent(login.username)}:${encodeURIComponent(login.password)}`;
  const host = isIPv6(place.host) ? `[${place.host}]` : place.host;
  const path = place.database === undefined ? database : encodeURIComponent(place.database);
  const own = place.parameters ?? {};
  const kept = query.split("&").filter((each) => each !== "" && !Object.hasOwn(own, each.split("=", 1)[0] ?? ""));
  const all = [...kept, ...Object.entries(own).map(([name, value]) => `${name}=${value}`)];
  return `${scheme}://${credentials}@${host}:${place.port}/${path}${all.length === 0 ? "" : `?${all.join("&")}`}`;
}

const partsOf = (value: string): Partial<Record<string, string>> => connectionString.exec(value)?.groups ?? {};

function objectIn(value: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(value);
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? { ...parsed } : {};
  } catch {
    return {};
  }
}

function loginInObject({ username, password }: Record<string, unknown>) {
  if (typeof password !== "string") return undefined;
  return typeof username === "string" ? { username, password } : { password };
}

function loginInConnectionString(value: string): Login | undefined {
  const { username, password } = partsOf(value);
  if (username === undefined || password === undefined) return undefined;
  try {
    return { username: decodeURIComponent(username), password: decodeURIComponent(password) };
  } catch {
    return undefined;
  }
}
