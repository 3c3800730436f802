/** Errors by which a server certainly changes nothing, as MySQL's and MariaDB's manuals name them. */
const lasting: Readonly<Record<number, string>> = {
  1044: "ER_DBACCESS_DENIED_ERROR",
  1045: "ER_ACCESS_DENIED_ERROR",
  1064: "ER_PARSE_ERROR",
  1130: "ER_HOST_NOT_PRIVILEGED",
  1131: "ER_PASSWORD_ANONYMOUS_USER",
  1132: "ER_PASSWORD_NOT_ALLOWED",
  1133: "ER_PASSWORD_NO_MATCH",
  1142: "ER_TABLEACCESS_DENIED_ERROR",
  1227: "ER_SPECIFIC_ACCESS_DENIED_ERROR",
  1372: "ER_PASSWD_LENGTH",
  1396: "ER_CANNOT_USER",
  1524: "ER_PLUGIN_IS_NOT_LOADED",
  1698: "ER_ACCESS_DENIED_NO_PASSWORD_ERROR",
  1699: "ER_SET_PASSWORD_AUTH_PLUGIN",
  1819: "ER_NOT_VALID_PASSWORD",
  1820: "ER_MUST_CHANGE_PASSWORD",
  1862: "ER_MUST_CHANGE_PASSWORD_LOGIN",
  3118: "ER_ACCOUNT_HAS_BEEN_LOCKED",
  3638: "ER_CREDENTIALS_CONTRADICT_TO_HISTORY",
  3892: "ER_MISSING_CURRENT_PASSWORD",
  4151: "ER_ACCOUNT_HAS_BEEN_LOCKED",
};

/** The same of those that pass with time, or may: a server that is read-only becomes the primary. */
const passing: Readonly<Record<number, string>> = {
  1040: "ER_CON_COUNT_ERROR",
  1129: "ER_HOST_IS_BLOCKED",
  1203: "ER_TOO_MANY_USER_CONNECTIONS",
  1205: "ER_LOCK_WAIT_TIMEOUT",
  1290: "ER_OPTION_PREVENTS_STATEMENT",
  1836: "ER_READ_ONLY_MODE",
  3955: "ER_USER_ACCESS_DENIED_FOR_USER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK",
};

/** The error's name for people, or else its number. */
export const nameOfError = (errno: number): string => lasting[errno] ?? passing[errno] ?? `error ${errno}`;

/** Whether a login was refused for its name and password. */
export const isWrongPassword = (errno: number): boolean => errno === 1045 || errno === 1698;

/** Whether waiting does not mend it. */
export const isPermanentError = (errno: number): boolean => Object.hasOwn(lasting, errno);

/** Whether a statement that was answered so has certainly changed nothing. */
export const hasNoEffect = (errno: number): boolean => isPermanentError(errno) || Object.hasOwn(passing, errno);
