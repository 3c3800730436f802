import type { ServerResponse } from "node:http";
import { sendJson } from "./json-answers.ts";
import type { ResponderState } from "./status-source.ts";
import type { Probe } from "./target.ts";

/** /health, /ready and /live, which asks nobody (gaps G-17.5). */
export async function sendProbe(
  response: ServerResponse,
  probe: Probe,
  readState: () => Promise<ResponderState>,
): Promise<void> {
  if (probe === "live") sendJson(response, 200, { status: "alive" });
  else if (probe === "ready") sendReady(response, await readState());
  else sendHealth(response, await readState());
}

const keysLoaded = (state: ResponderState) => state.signingKeys >= state.certificateAuthorities;
const isReady = (state: ResponderState) => state.databaseConnected && keysLoaded(state);

function sendReady(response: ServerResponse, state: ResponderState): void {
  if (isReady(state)) sendJson(response, 200, { status: "ready" });
  else sendJson(response, 503, { status: "not_ready" });
}

function sendHealth(response: ServerResponse, state: ResponderState): void {
  sendJson(response, isReady(state) ? 200 : 503, {
    status: isReady(state) ? "healthy" : "unhealthy",
    components: {
      database: state.databaseConnected ? "connected" : "disconnected",
      signing_key: keysLoaded(state) ? "loaded" : "missing",
      ca_certificates: state.certificateAuthorities,
    },
  });
}
