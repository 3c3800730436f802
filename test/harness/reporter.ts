import Mocha from "mocha";

/** Mocha's spec reporter with a closing line that programs can read: "N passed, N failed". */
export default class ClosingLine extends Mocha.reporters.Spec {
  override epilogue(): void {
    super.epilogue();
    const { passes, failures, pending } = this.stats;
    console.log(`${passes} passed, ${failures} failed${pending > 0 ? `, ${pending} skipped` : ""}`);
  }
}
