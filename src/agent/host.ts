import { readFileSync } from "node:fs";
import { arch, hostname, release, type } from "node:os";
import { version } from "../version.ts";

/** What the agent calls itself. */
export const userAgent = `holdfast-agent/${version}`;

/** What the agent says of itself with every heartbeat. */
export const running = { version, os: operatingSystem() };

/** What it says besides when it enrolls. */
export const host = { hostname: hostname(), ...running };

/** As in "Debian GNU/Linux 13 (trixie), Linux 6.12.9 x64" (os-release(5)). */
function operatingSystem(): string {
  const kernel = `${type()} ${release()} ${arch()}`;
  try {
    const [, name] = /^PRETTY_NAME="?([^"\n]+)"?$/m.exec(readFileSync("/etc/os-release", "utf8")) ?? [];
    return name === undefined ? kernel : `${name}, ${kernel}`.slice(0, 255);
  } catch {
    return kernel;
  }
}
