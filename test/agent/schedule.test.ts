import { expect } from "chai";
import { Schedule } from "../../src/agent/schedule.ts";

const forever = new AbortController().signal;
/** Longer than any test. */
const hourMs = 3_600_000;

/** Whether a scan is due as soon as others have had their turn. */
async function isDue(schedule: Schedule): Promise<boolean> {
  const stop = new AbortController();
  const due = schedule.due(stop.signal).then(
    () => true,
    () => false,
  );
  setImmediate(() => stop.abort());
  return due;
}

describe("The schedule of scans", () => {
  it("begins with one, and has no other until somebody says so", async () => {
    const schedule = new Schedule();

    expect([await isDue(schedule), await isDue(schedule)]).to.deep.equal([true, false]);
  });

  it("takes the soonest of what it is told", async () => {
    const schedule = new Schedule();
    await schedule.due(forever);

    schedule.hurryTo(hourMs);
    expect(await isDue(schedule)).to.equal(false);
    schedule.hurryTo(0);
    schedule.hurryTo(hourMs);

    expect(await isDue(schedule)).to.equal(true);
  });

  it("hears of a change while it waits", async () => {
    const schedule = new Schedule();
    await schedule.due(forever);
    schedule.hurryTo(hourMs);

    const due = schedule.due(forever);
    schedule.hurryTo(0);

    await due;
  });

  it("does not forget a change that comes while a scan runs, whatever is due after that", async () => {
    const schedule = new Schedule();
    await schedule.due(forever);

    schedule.hurryTo(0);
    schedule.hurryTo(hourMs);

    expect(await isDue(schedule)).to.equal(true);
  });

  it("keeps what is due when the wait is broken off", async () => {
    const schedule = new Schedule();

    const refused = await schedule.due(AbortSignal.abort(new Error("stop"))).catch((error: Error) => error.message);

    expect(refused).to.equal("stop");
    expect(await isDue(schedule)).to.equal(true);
  });
});
