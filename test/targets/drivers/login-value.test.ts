import { expect } from "chai";
import { composeValue, readLogin } from "../../../src/targets/drivers/login-value.ts";

const login = { username: "app", password: "p@ss/w:rd?#%" };
const place = {
  scheme: "postgresql",
  host: "db.example.com",
  port: 5432,
  database: "sales",
  parameters: { sslmode: "verify-full" },
};
const mysqlPlace = { scheme: "mysql", host: "db.example.com", port: 3306 };

describe("The value of a secret that is a login", () => {
  it("may be the password alone", () => {
    expect(composeValue("password", login, place, "before")).to.equal(login.password);
  });

  it("may be a connection string, with everything in it that would mean something else encoded", () => {
    expect(composeValue("connection_string", login, place, "before")).to.equal(
      "postgresql://app:p%40ss%2Fw%3Ard%3F%23%25@db.example.com:5432/sales?sslmode=verify-full",
    );
  });

  it("may be a connection string to an address of IPv6", () => {
    const value = composeValue("connection_string", login, { ...place, host: "2001:db8::1" }, "before");

    expect(value).to.include("@[2001:db8::1]:5432/");
  });

  it("keeps the scheme and the parameters of the connection string before", () => {
    const before = "postgres+asyncpg://old:word@old.example.com:1/old?application_name=a%20b&sslmode=disable&x=y";

    const value = composeValue("connection_string", login, place, before);

    expect(value).to.match(
      /^postgres\+asyncpg:\/\/app:[^@]+@db\.example\.com:5432\/sales\?application_name=a%20b&x=y&sslmode=verify-full$/,
    );
  });

  it("keeps the database of the connection string before, where the settings name none", () => {
    const value = composeValue(
      "connection_string",
      login,
      mysqlPlace,
      "mysql://old:word@old.example.com/shop?charset=utf8mb4",
    );

    expect(value).to.match(/^mysql:\/\/app:[^@]+@db\.example\.com:3306\/shop\?charset=utf8mb4$/);
  });

  it("may be an object, which keeps the other keys of the one before", () => {
    const before = '{"engine":"postgres","username":"old","password":"old","port":1}';

    expect(JSON.parse(composeValue("json", login, place, before))).to.deep.equal({
      engine: "postgres",
      ...login,
      host: "db.example.com",
      port: 5432,
      database: "sales",
    });
  });

  for (const before of ["no object", "[1]", "null", "7", '{"__proto__":{"admin":true}}', ""]) {
    it(`may be an object after ${JSON.stringify(before)}`, () => {
      const value = JSON.parse(composeValue("json", login, mysqlPlace, before));

      expect(value).to.include({ ...login, host: "db.example.com", port: 3306 });
      expect(value.admin).to.equal(undefined);
    });
  }

  for (const format of ["connection_string", "json"] as const) {
    for (const password of [login.password, "ä ö 数据 🔑", "%41", "\"'\\"]) {
      it(`is read as it was made: ${password} as ${format}`, () => {
        const value = composeValue(format, { username: "us:er@", password }, place, "before");

        expect(readLogin(value)).to.deep.equal({ username: "us:er@", password });
      });
    }
  }

  const read: [string, string, object][] = [
    ["a password", "p@ss", { password: "p@ss" }],
    ["an object without a name", '{"password":"p"}', { password: "p" }],
    ["an object without a password", '{"token":"t"}', { password: '{"token":"t"}' }],
    ["several hosts", "postgresql://u:p@a:1,b:2/db", { username: "u", password: "p" }],
    ["a password that is not encoded", "postgresql://u:100%@a/db", { password: "postgresql://u:100%@a/db" }],
    ["a URL without a login", "https://example.com/a:b@c", { password: "https://example.com/a:b@c" }],
  ];
  for (const [what, value, expected] of read) {
    it(`is read where it is ${what}`, () => {
      expect(readLogin(value)).to.deep.equal(expected);
    });
  }
});
