import { RE2JS } from "re2js";
import type { NamingPolicyJson, ViolationJson } from "../report-json.ts";
import { type Named, pagesOfNames } from "./names.ts";
import {
  type Evidence,
  failed,
  mostListed,
  notApplicable,
  notEvaluated,
  nothingRequired,
  type Outcome,
  passed,
  type Rules,
} from "./rule.ts";
import { Turns } from "./turns.ts";

/** Processor time of a rule. A hundred thousand names and fifty usual patterns take about half of it. */
const mostMatchingMs = 5000;

/** What is wrong with a name, by the first pattern that says so. */
interface Wording {
  /** Whether a name is to match: all of the patterns, or none. */
  readonly mustMatch: boolean;
  readonly fault: string;
  readonly actual: string;
}

async function checkNames(evidence: Evidence, patterns: readonly string[], wording: Wording): Promise<Outcome> {
  if (patterns.length === 0) return nothingRequired();
  const { checked, first, isComplete } = await matchNames(evidence, patterns, wording);
  const { count } = first;
  const whole = isComplete ? `${checked} names` : `the first ${checked} names`;
  const message = `${count} of ${whole} ${wording.fault}`;
  if (count > 0) return failed(checked, message, first.list, count);
  if (!isComplete) return notEvaluated(`${message}, and the others would take too long`);
  return checked === 0 ? notApplicable("there are no names") : passed(checked, message);
}

async function matchNames(evidence: Evidence, patterns: readonly string[], { mustMatch, actual }: Wording) {
  // A pattern matches where it is found in a name, unless it says ^ and $.
  const compiled = patterns.map((pattern) => ({ pattern, expression: RE2JS.compile(pattern) }));
  const first = new FirstByName();
  const turns = new Turns(mostMatchingMs);
  let checked = 0;
  for await (const page of pagesOfNames(evidence)) {
    turns.begin();
    for (const named of page) {
      for (const { pattern, expression } of compiled) {
        if (turns.isOver) {
          await turns.next();
          if (turns.isSpent) return { checked, first, isComplete: false };
        }
        if (expression.test(named.name) === mustMatch) continue;
        first.add({ ...named, actual: `${actual} ${pattern}` });
        break;
      }
      checked += 1;
    }
    await turns.next();
  }
  return { checked, first, isComplete: true };
}

/** Counts violations, and keeps as many of the first ones as are listed. */
class FirstByName {
  count = 0;
  #kept: ViolationJson[] = [];

  add(violation: ViolationJson): void {
    this.count += 1;
    this.#kept.push(violation);
    if (this.#kept.length >= 20 * mostListed) this.#kept = this.list;
  }

  get list(): ViolationJson[] {
    return this.#kept.sort(byName).slice(0, mostListed);
  }
}

function byName(a: Named, b: Named): number {
  if (a.name !== b.name) return a.name < b.name ? -1 : 1;
  return a.resource_id < b.resource_id ? -1 : 1;
}

/** What is required of the names of secrets and keytabs. */
export const namingPolicy: Rules<NamingPolicyJson> = {
  required_patterns: (patterns, evidence) =>
    checkNames(evidence, patterns, {
      mustMatch: true,
      fault: "do not match every required pattern",
      actual: "does not match",
    }),
  forbidden_patterns: (patterns, evidence) =>
    checkNames(evidence, patterns, {
      mustMatch: false,
      fault: "match a forbidden pattern",
      actual: "matches",
    }),
};
