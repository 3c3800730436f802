import { expect } from "chai";
import type { Client } from "../../harness/client.ts";

/** A violation as it is answered. */
export interface Violation {
  readonly resource_type: string;
  readonly resource_id: string;
  readonly name: string;
  readonly actual: string;
}

/** What was found of a rule, as it is answered. */
export interface Result {
  readonly rule: string;
  readonly required: unknown;
  readonly status: string;
  readonly checked: number;
  readonly violation_count: number;
  readonly message: string;
  readonly violations: readonly Violation[];
}

/** Imports a report and answers its evaluation. */
export async function evaluationOf(
  by: Client,
  report: Record<string, unknown>,
): Promise<{ status: string; evaluated_at: string; summary: Record<string, number>; results: Result[] }> {
  const { status, body } = await by.rest("POST", "/api/v1/governance/reports", report);
  expect(status, JSON.stringify(body)).to.equal(201);
  return body.evaluation;
}

/** Imports a report with one rule, at a path as in "rotation_policy.require_rotation_enabled", and answers what was found. */
export async function resultOf(by: Client, path: string, required: unknown): Promise<Result> {
  const [group = "", field = ""] = path.split(".");
  const { results } = await evaluationOf(by, { [group]: { [field]: required } });
  expect(results.map(({ rule }) => rule)).to.deep.equal([path]);
  return results[0] as Result;
}

/** A result in short: status, what was looked at, what violates, and the sentence. */
export const inShort = ({ status, checked, violation_count, message }: Result) =>
  `${status} ${violation_count}/${checked}: ${message}`;

/** Names of the violations with what was found, in the order of the answer. */
export const violationsOf = ({ violations }: Result) => violations.map(({ name, actual }) => `${name}: ${actual}`);
