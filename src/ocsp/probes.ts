import type { ServerResponse } from "node:http";
import { sendJson } from "./json-answers.ts";
import type { ResponderState } from "./status-source.ts";
import type { Probe } from "./target.ts";
import { TooLate, Wait } from "./wait.ts";

/** More than the database takes to be given up, and less than whoever asks is patient by default. */
const statePatienceMs = 4800;

/** /health, /ready and /live, which asks nobody (gaps G-17.5). */
export async function sendProbe(
  response: ServerResponse,
  probe: Probe,
  readState: () => Promise<ResponderState>,
): Promise<void> {
  if (probe === "live") sendJson(response, 200, { status: "alive" });
  else if (probe === "ready") sendReady(response, await inTime(readState()));
  else sendHealth(response, await inTime(readState()));
}

/** Undefined when that is not told in time: at the first start, thousands of keys may have to be opened. */
function inTime(state: Promise<ResponderState>): Promise<ResponderState | undefined> {
  return new Wait<ResponderState | undefined>(state, statePatienceMs).settled.catch((error: unknown) => {
    if (error instanceof TooLate) return undefined;
    throw error;
  });
}

const keysLoaded = (state: ResponderState) => state.signingKeys >= state.certificateAuthorities;
const isReady = (state: ResponderState) => state.databaseConnected && keysLoaded(state);

function sendReady(response: ServerResponse, state: ResponderState | undefined): void {
  if (state !== undefined && isReady(state)) sendJson(response, 200, { status: "ready" });
  else sendJson(response, 503, { status: "not_ready" });
}

function sendHealth(response: ServerResponse, state: ResponderState | undefined): void {
  if (state === undefined) return sendJson(response, 503, { status: "unhealthy" });
  sendJson(response, isReady(state) ? 200 : 503, {
    status: isReady(state) ? "healthy" : "unhealthy",
    components: {
      database: state.databaseConnected ? "connected" : "disconnected",
      signing_key: keysLoaded(state) ? "loaded" : "missing",
      ca_certificates: state.certificateAuthorities,
    },
  });
}
