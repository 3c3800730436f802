import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { version } from "../version.ts";
import type { Authority } from "./authority.ts";

/** What a gateway counts, and Prometheus reads. */
export class Metrics {
  readonly registry: Registry = new Registry();
  /** By how they went: ok or failed. */
  readonly heartbeats: Counter<"outcome">;
  /** By type, and by what became of them: succeeded, failed, timed_out, abandoned, or refused, when the report was. */
  readonly tasks: Counter<"type" | "outcome">;
  readonly taskDuration: Histogram<"type">;
  readonly tasksRunning: Gauge;
  readonly connected: Gauge;

  constructor(authority: Authority) {
    const registers = [this.registry];
    this.heartbeats = new Counter({
      name: "holdfast_gateway_heartbeats_total",
      help: "Heartbeats that were sent.",
      labelNames: ["outcome"],
      registers,
    });
    this.tasks = new Counter({
      name: "holdfast_gateway_tasks_total",
      help: "Tasks that were claimed, by what became of them.",
      labelNames: ["type", "outcome"],
      registers,
    });
    this.taskDuration = new Histogram({
      name: "holdfast_gateway_task_duration_seconds",
      help: "Time from the claim of a task until its report was taken.",
      labelNames: ["type"],
      buckets: [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 60],
      registers,
    });
    this.tasksRunning = new Gauge({
      name: "holdfast_gateway_tasks_running",
      help: "Tasks that run at this moment.",
      registers,
    });
    this.connected = new Gauge({
      name: "holdfast_gateway_connected",
      help: "Whether a server serves the gateway.",
      registers,
    });
    this.registry.registerMetric(activeGauge(authority));
    this.registry.registerMetric(leaseGauge(authority));
    this.registry.registerMetric(buildGauge());
  }
}

const activeGauge = (authority: Authority) =>
  new Gauge({
    name: "holdfast_gateway_active",
    help: "Whether the gateway may rotate: it is the active one of its environment, and its lease holds.",
    registers: [],
    collect() {
      this.set(authority.term?.fencingToken === undefined ? 0 : 1);
    },
  });

const leaseGauge = (authority: Authority) =>
  new Gauge({
    name: "holdfast_gateway_lease_seconds_remaining",
    help: "For how long the gateway may go on without another answer to a heartbeat.",
    registers: [],
    collect() {
      this.set(authority.leaseLeftMs / 1000);
    },
  });

function buildGauge() {
  const help = "The version of the program.";
  const gauge = new Gauge({ name: "holdfast_gateway_build_info", help, labelNames: ["version"], registers: [] });
  gauge.set({ version }, 1);
  return gauge;
}
