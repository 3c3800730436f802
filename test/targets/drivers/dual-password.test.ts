import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Assignment } from "../../../src/targets/drivers/driver.ts";
import { mysqlUser } from "../../../src/targets/drivers/mysql-user.ts";
import { TestPermit } from "./assignment.ts";
import { Authority } from "./authority.ts";
import { assignmentFor, failure, outbound } from "./database-target.ts";
import { Mysql8 } from "./mysql8.ts";

const user = mysqlUser.open({ outbound });
const [before, previous, candidate, earlier] = ["before", "previous", "candidate", "earlier"];

const authority = Authority.make();
if (authority === undefined) console.log("second passwords of MySQL are not tested: this machine has no openssl");
else testSecondPasswords(authority);

function testSecondPasswords(authority: Authority) {
  const files = authority.issue("IP:127.0.0.1");
  const trusting = { ca_certificate_pem: authority.certificate };
  after(() => authority.remove());

  for (const [who, credentials] of [
    ["the user itself", undefined],
    ["an administrator", { admin_username: "admin", admin_password: "admin" }],
  ] as const) {
    describe(`A second password of MySQL, set by ${who}`, () => {
      let target: Mysql8;
      let permit: TestPermit;
      beforeEach(async () => {
        permit = new TestPermit();
        target = await Mysql8.start(files);
        target.accounts.set("admin", { primary: "admin", secondary: undefined });
        target.accounts.set("app", { primary: previous, secondary: before });
      });
      afterEach(() => target.stop());

      const assignment = (fields: Partial<Assignment> = {}, settings: JsonObject = {}) =>
        assignmentFor(
          mysqlUser,
          { host: "127.0.0.1", port: target.port, username: "app", dual_password: true, ...trusting, ...settings },
          { value: candidate, previousValue: previous, ...(credentials && { credentials }), ...fields },
        );

      it("is the one before, which goes on working", async () => {
        await user.apply(assignment(), permit);
        await user.verify(assignment(), permit);

        expect(target.accepted("app")).to.deep.equal([candidate, previous]);
      });

      it("is not pushed out when the same is applied again", async () => {
        await user.apply(assignment(), permit);

        await user.apply(assignment(), permit);

        expect(target.accepted("app")).to.deep.equal([candidate, previous]);
      });

      it("is not pushed out when nobody heard that it was done", async () => {
        target.cutAfter = /retain/;

        const error = await failure(user.apply(assignment(), permit));
        await user.apply(assignment(), permit);

        expect(error).to.include({ code: "unreachable", unchanged: false });
        expect(target.accepted("app")).to.deep.equal([candidate, previous]);
      });

      it("is not pushed out by a candidate that was given up", async () => {
        await user.apply(assignment({ value: earlier }), permit);

        await user.apply(assignment({ earlierCandidates: ["another", earlier] }), permit);

        expect(target.accepted("app")).to.deep.equal([candidate, previous]);
      });

      for (const step of [/identified by 'previous'$/, /retain/]) {
        it(`is not pushed out by one either, when the connection is cut after ${step}`, async () => {
          await user.apply(assignment({ value: earlier }), permit);
          const task = assignment({ earlierCandidates: [earlier] });
          target.cutAfter = step;

          const error = await failure(user.apply(task, permit));
          expect(target.accepted("app")).to.include(previous);
          await user.apply(task, permit);

          expect(error).to.include({ code: "unreachable", unchanged: false });
          expect(target.accepted("app")).to.deep.equal([candidate, previous]);
        });
      }

      it("is not made where it is not asked for", async () => {
        await user.apply(assignment({}, { dual_password: false }), permit);

        expect(target.accepted("app")).to.deep.equal([candidate, before]);
        expect(target.statements.join()).not.to.include("retain");
      });

      for (const version of ["8.0.13", "5.7.44-log", "8.0.11-TiDB-v7.5.0", "nonsense"]) {
        it(`is refused for good by ${version}, which does not have it`, async () => {
          const older = await Mysql8.start({ ...files, version });
          older.accounts.set("admin", { primary: "admin", secondary: undefined });
          older.accounts.set("app", { primary: previous, secondary: undefined });
          try {
            const error = await failure(user.apply(assignment({}, { port: older.port }), permit));

            expect(error).to.include({ code: "invalid", permanent: true, unchanged: true });
            expect(older.statements).to.deep.equal([]);
          } finally {
            older.stop();
          }
        });
      }
    });
  }
}
