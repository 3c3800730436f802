/**
 * SQL for the verdict of the rules in two parameters, as in "$2", on a column of canonical names: for many rows at once,
 * by the same rules as `verdictOf`.
 */
export const verdictSql = (types: string, allowed: string, deprecated: string) =>
  `case when not ${types} <@ ${allowed} then 'non_compliant' when ${types} && ${deprecated} then 'warning' else 'compliant' end`;
