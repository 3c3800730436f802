import { expect } from "chai";
import { useServer } from "../../harness/server.ts";
import { errorLines, expectSpecifiedError, request, send } from "./raw-http.ts";

const server = useServer();

/** Why it is hostile, the request, the status, and where one field is at fault, that field. */
type Row = readonly [why: string, bytes: string | Buffer, status: number, field?: string];

const secrets = "/api/v1/secrets";
const rpc = "/holdfast.secrets.v1.SecretService/GetSecret";
const missing = "0193b1d2-6a3e-7c1b-9a70-0d6c4f1f3f55";
const json = (more: Record<string, string> = {}) => ({
  Authorization: `Bearer ${server.admin.token}`,
  "Content-Type": "application/json",
  ...more,
});
const post = (body: string | Buffer, path = secrets, headers = json()) => request("POST", path, { headers, body });
const get = (path: string, headers = json()) => request("GET", path, { headers });

/** A request to create a secret of which one field is replaced by JSON text. */
const withField = (field: string, text: string) => {
  const fields: Record<string, string> = { key: '"k"', value: '"v"', project_id: `"${server.projectId}"` };
  const pairs = Object.entries({ ...fields, [field]: text }).map(([name, value]) => `"${name}":${value}`);
  return post(`{${pairs.join(",")}}`);
};

const tables: Record<string, () => Row[]> = {
  "methods that a path does not take": () =>
    ["TRACE", "OPTIONS", "PROPFIND", "PATCH", "QUERY", "LOCK", "M-SEARCH", "PURGE"].flatMap((method) =>
      [secrets, `${secrets}/${missing}`, `${secrets}/${missing}/rollback`, "/oauth/token", "/api/v1/health", rpc].map(
        (path): Row => [`${method} ${path}`, request(method, path, { headers: json() }), 405],
      ),
    ),

  "methods that are none": () =>
    ["FOO", "get", "G3T", "GET/", "\0", "GET\t", "ＧＥＴ", "A".repeat(500)].map(
      (method): Row => [JSON.stringify(method.slice(0, 10)), request(method, "/api/v1/health"), 400],
    ),

  "paths that name nothing": () =>
    [
      ["/", "//", "///", "/.", "/..", "/../..", "/%2e%2e", "/api", "/api/", "/api/v1", "/api/v1/", "/api//v1/secrets"],
      ["//api/v1/secrets", "/api/v1/../v1/secrets", "/api/v1/./secrets", "/API/V1/SECRETS", "/api/v1/secrets//"],
      [
        "/api/v2/secrets",
        "/api/v2",
        "/api/v10/secrets",
        "/api/v1/secretsx",
        "/api/v1/secrets%20",
        "/api/v1/secrets%00",
      ],
      ["/api/v1/health/x", "/oauth", "/oauth/token/x", "/docs/../etc/passwd", "/docs/%2e%2e/package.json", "/docs/x"],
      [
        `${secrets}/%zz`,
        `${secrets}/%`,
        `${secrets}/%f`,
        `${secrets}/%ff`,
        `${secrets}/%c0%ae`,
        `${secrets}/%ed%a0%80`,
      ],
      [`${secrets}/${missing}/nothing`, `${secrets}/${missing}/versions/1`, `${secrets}/a%2Fb`, `${secrets}/%00`, "*"],
      [
        `${secrets}/${"a".repeat(2000)}`,
        `${secrets}/😀`.replace("😀", "%F0%9F%98%80"),
        `${secrets}/;`,
        `${secrets}/..;/`,
      ],
      [
        "/holdfast.secrets.v1.SecretService/",
        "/holdfast.secrets.v1.SecretService/getSecret",
        "/__proto__",
        "/constructor",
      ],
      ["http://holdfast/nothing", "http://holdfast", "HTTP://other/api/v2/x", "ftp://x/api/v1/health", "/#/api"],
      [
        `${secrets}/${missing}`,
        `${secrets}/${missing.toUpperCase()}`,
        `${secrets}/{id}`,
        `${secrets}/:id`,
        `${secrets}/*`,
      ],
    ]
      .flat()
      .map((path): Row => [path.slice(0, 60), get(path), 404]),

  "targets that are none": () =>
    [" ", "?", "x", "/a b", "/\0", "/\u0001", `/${"a".repeat(20_000)}`, `${secrets}?${"a=b&".repeat(10_000)}`].map(
      (target): Row => [JSON.stringify(target.slice(0, 20)), get(target), 400],
    ),

  "queries that cannot be read": () => {
    const project = `project_id=${server.projectId}`;
    return [
      ["x=%zz", "x"],
      ["%", "query"],
      ["project_id=%ff", "project_id"],
      ["project_id=%c0%80", "project_id"],
      ["project_id=", "project_id"],
      ["project_id=nope", "project_id"],
      ["projectId=nope", "project_id"],
      [`${project}&projectId=${missing}`, "project_id"],
      [`${project}&search=%00`, "search"],
      [`${project}&tag=%00`, "tag"],
      [`${project}&search=${"a".repeat(256)}`, "search"],
      [`${project}&environment=${"a".repeat(51)}`, "environment"],
      [`${project}&status=gone`, "status"],
      [`${project}&per_page=1&limit=2`, "per_page"],
      [`${project}&page=1&page=2`, "page"],
      ...["0", "-1", "1.5", "1e1", "0x1", "", "+1", "%201", "2147483648", "NaN", "true", "[1]", "%31%00"].map(
        (page) => [`${project}&page=${page}`, "page"],
      ),
      ...["0", "101", "-1", "1.0"].map((size) => [`${project}&limit=${size}`, "per_page"]),
    ].map(([query = "", field = ""]): Row => [query.replace(project, "…"), get(`${secrets}?${query}`), 400, field]);
  },

  "bodies that are no JSON object": () =>
    [
      "[]",
      "null",
      '"x"',
      "1",
      "true",
      "{",
      "}",
      "{]",
      "{}{}",
      "{} x",
      "{'a':1}",
      "{a:1}",
      '{"a":}',
      '{"a":1,}',
      "NaN",
      "\ufeff{}",
      "// c\n{}",
      '{"a":01}',
      '{"a":+1}',
      '{"a":.5}',
      '{"a":0x1}',
      '{"a":"\n"}',
      '{"a":"\\x"}',
      '{"a":"\\u12"}',
      '{"a":1,"a":2}',
      '{"a":1,"\\u0061":2}',
      '{"metadata":{"x":[{"a":1,"a":1}]}}',
      '{"a":{"b":1},"a":{"c":1}}',
      " ",
      "\0",
      `{"metadata":{"a":${"[".repeat(31)}${"]".repeat(31)}}}`,
      `{"a":${'{"a":'.repeat(40)}1${"}".repeat(40)}}`,
      "[".repeat(100_000),
      '{"a":'.repeat(100_000),
    ]
      .map((body): Row => [JSON.stringify(body.slice(0, 30)), post(body), 400, "body"])
      .concat(
        [
          Buffer.from([0x7b, 0xff, 0x7d]),
          Buffer.from('{"key":"\xc0\x80"}', "latin1"),
          Buffer.from('{"key":"\xed\xa0\x80"}', "latin1"),
          Buffer.from("{}", "utf16le"),
        ].map((body): Row => [`bytes ${body.toString("hex").slice(0, 20)}`, post(body), 400, "body"]),
      ),

  "values of the wrong type": () => {
    const texts = ["5", "true", "[]", "{}", '["x"]', '"\\ud800"'];
    const integers = [
      "5.5",
      "true",
      '""',
      '"5.5"',
      '"x"',
      '" 5"',
      '"0x5"',
      '"5e0"',
      "[]",
      "{}",
      "1e400",
      "99999999999",
      "-0",
      "0",
    ];
    const rows: [string, string, string?][] = [
      ...["key", "value", "project_id", "environment", "change_reason", "type", "description"].flatMap((field) =>
        texts.map((text): [string, string] => [field, text]),
      ),
      ...integers.map((text): [string, string] => ["ttl_hours", text]),
      ...["5", "true", "{}"].map((text): [string, string] => ["tags", text]),
      ...["[5]", "[null]", "[[]]", '["\\ud800"]', '[""]'].map((text): [string, string, string] => [
        "tags",
        text,
        "tags[0]",
      ]),
      ...["5", "true", "[]", '"x"'].map((text): [string, string] => ["metadata", text]),
      ...["5", "true", "[]", '"x"'].map((text): [string, string] => ["rotation", text]),
      ...["5", '"yes"', "{}", '""'].map((text): [string, string, string] => [
        "rotation",
        `{"enabled":${text}}`,
        "rotation.enabled",
      ]),
      ["rotation", '{"interval_days":1.5}', "rotation.interval_days"],
      ["rotation", '{"intervalDays":0}', "rotation.interval_days"],
    ];
    return rows.map(([field, text, at = field]): Row => [`${field} ${text}`, withField(field, text), 400, at]);
  },

  "text that cannot be stored": () => {
    const inText = ["key", "environment", "change_reason", "type", "description"].map(
      (field): Row => [`U+0000 in ${field}`, withField(field, '"a\\u0000"'), 400, field],
    );
    const inMetadata = [
      '{"a":"\\u0000"}',
      '{"\\u0000":1}',
      '{"a":[{"b":"\\u0000"}]}',
      '{"a":"\\ud800"}',
      '{"\\udfff":1}',
    ];
    const numbers = ['{"a":1e400}', '{"a":[-1e400]}'];
    return [
      ...inText,
      ...[...inMetadata, ...numbers].map(
        (text): Row => [`metadata ${text}`, withField("metadata", text), 400, "metadata"],
      ),
      ["U+0000 in a tag", withField("tags", '["a","\\u0000"]'), 400, "tags[1]"],
    ];
  },

  "JSON of any kind that cannot be kept": () =>
    ["interval_days", "provider"].flatMap((field) =>
      [
        '"\\u0000"',
        '"\\ud800"',
        "1e400",
        '{"type":"\\u0000"}',
        '{"\\udfff":1}',
        '[["\\u0000"]]',
        '{"type":-1e400}',
      ].map(
        (text): Row => [
          `${field} ${text}`,
          request("PUT", `${secrets}/${missing}/rotation-config`, { headers: json(), body: `{"${field}":${text}}` }),
          400,
          field,
        ],
      ),
    ),

  "values past a limit": () => [
    ["a value of 65,537 bytes", withField("value", JSON.stringify("a".repeat(65_537))), 400, "value"],
    ["a value of 32,769 times two bytes", withField("value", JSON.stringify("é".repeat(32_769))), 400, "value"],
    ["a key of 256 emoji", withField("key", JSON.stringify("😀".repeat(256))), 400, "key"],
    ["an environment of 51 characters", withField("environment", JSON.stringify("é".repeat(51))), 400, "environment"],
    [
      "a reason of 1,001 characters",
      withField("change_reason", JSON.stringify("a".repeat(1001))),
      400,
      "change_reason",
    ],
    [
      "a description of 1,025 characters",
      withField("description", JSON.stringify("a".repeat(1025))),
      400,
      "description",
    ],
    ["51 tags", withField("tags", JSON.stringify(Array.from({ length: 51 }, (_, n) => `t${n}`))), 400, "tags"],
    ["a tag of 65 characters", withField("tags", JSON.stringify(["a".repeat(65)])), 400, "tags[0]"],
    ["17 KiB of metadata", withField("metadata", JSON.stringify({ a: "a".repeat(17_000) })), 400, "metadata"],
    ["a key and a name that differ", withField("name", '"other"'), 400, "key"],
  ],

  "content types other than JSON": () =>
    [
      "text/plain",
      "application/xml",
      "application/json5",
      "application/x-www-form-urlencoded",
      "*/*",
      ";",
      "json",
      "application/json; charset=latin1",
      "application/json;charset=utf-16",
      "application/vnd.api+json",
      "multipart/form-data",
    ].map((type): Row => [type, post("{}", secrets, json({ "Content-Type": type })), 400, "header.Content-Type"]),

  "headers that lie or inject": () => [
    ["no Host", `GET /api/v1/health HTTP/1.1\r\nConnection: close\r\n\r\n`, 400, "header.Host"],
    ["a compressed body", post("{}", secrets, json({ "Content-Encoding": "gzip" })), 400, "header.Content-Encoding"],
    [
      "two lengths",
      request("POST", secrets, { headers: { "Content-Length": "2\r\nContent-Length: 3" }, body: "{}" }),
      400,
    ],
    [
      "length and chunks",
      post("0\r\n\r\n", secrets, json({ "Content-Length": "5", "Transfer-Encoding": "chunked" })),
      400,
    ],
    ["a negative length", post("", secrets, json({ "Content-Length": "-1" })), 400],
    ["a length that is none", post("", secrets, json({ "Content-Length": "0x10" })), 400],
    ["an unknown transfer encoding", post("x", secrets, json({ "Transfer-Encoding": "gzip" })), 400],
    ["chunks of no length", post("zz\r\n{}\r\n0\r\n\r\n", secrets, json({ "Transfer-Encoding": "chunked" })), 400],
    ["a bare carriage return", request("GET", secrets, { headers: { "X-Request-Id": "a\rSet-Cookie: b" } }), 400],
    ["a bare line feed in a name", request("GET", secrets, { headers: { "X\nY": "a" } }), 400],
    ["U+0000 in a header", request("GET", secrets, { headers: { X: "a\0b" } }), 400],
    ["a header without a name", request("GET", secrets, { headers: { "": "a" } }), 400],
    ["space before the colon", request("GET", secrets, { headers: { "X ": "a" } }), 400],
    ["folded headers", request("GET", secrets, { headers: { X: "a\r\n b" } }), 400],
    ["20 KiB in a header", request("GET", secrets, { headers: { X: "a".repeat(20_000) } }), 400],
    ["3,000 headers", request("GET", secrets, { headers: { X: `1${"\r\nY: 1".repeat(3000)}` } }), 400],
    [
      "If-Match that is no version",
      request("PUT", `${secrets}/${missing}`, { headers: json({ "If-Match": '"x"' }), body: "{}" }),
      400,
      "header.If-Match",
    ],
    [
      "Idempotency-Key with a space",
      post(
        '{"key":"k","value":"v","project_id":"'.concat(server.projectId, '"}'),
        secrets,
        json({ "Idempotency-Key": "a b" }),
      ),
      400,
      "header.Idempotency-Key",
    ],
    [
      "Idempotency-Key of 256 characters",
      post(
        '{"key":"k","value":"v","project_id":"'.concat(server.projectId, '"}'),
        secrets,
        json({ "Idempotency-Key": "a".repeat(256) }),
      ),
      400,
      "header.Idempotency-Key",
    ],
  ],

  "credentials that are none": () =>
    [
      "Basic YTpi",
      "Bearer",
      "Bearer ",
      "bearer x",
      "Bearer a.b.c",
      "Bearer ..",
      "Digest a",
      ",",
      "Bearer null",
      `Bearer ${"a".repeat(8e3)}`,
      "Bearer eyJhbGciOiJub25lIn0.e30.",
      "Token x",
      "Bearer x, Bearer y",
    ].map((value): Row => [value.slice(0, 30), get(secrets, { ...json(), Authorization: value }), 401]),

  "bytes that are no HTTP": () => [
    ["prose", "hello, who is there?\r\n\r\n", 400],
    ["a TLS greeting", Buffer.from("16030100050102030405060d0a", "hex"), 400],
    ["another version", "GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400],
    ["no version", "GET /\r\nHost: x\r\n\r\n", 404],
    ["a Redis command", "*1\r\n$4\r\nPING\r\n", 400],
    ["half of HTTP/2's greeting", "PRI * HTTP/1.1\r\n\r\nXX\r\n\r\n", 400],
    ["CONNECT", "CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n\r\n", 404],
  ],

  "calls over the wrong protocol": () => [
    [
      "gRPC over HTTP/1.1",
      post("\0\0\0\0\0", rpc, json({ "Content-Type": "application/grpc" })),
      400,
      "header.Content-Type",
    ],
    ["a method as plain text", post("{}", rpc, json({ "Content-Type": "text/plain" })), 400, "header.Content-Type"],
    ["a stream as JSON", post("{}", "/grpc.health.v1.Health/Watch"), 400, "header.Content-Type"],
    ["a stream by GET", get("/grpc.health.v1.Health/Watch"), 405],
    ["a method by GET", get(`${rpc}?connect=v1&encoding=json&message=%7B%7D`), 405],
  ],

  "forms that cannot be read": () => {
    const form = (body: string) =>
      post(body, "/oauth/token", { "Content-Type": "application/x-www-form-urlencoded" } as never);
    return [
      ["no fields", form("a"), 400, "grant_type"],
      ["%zz", form("grant_type=%zz"), 400, "grant_type"],
      ["another grant", form("grant_type=password&client_id=a&client_secret=b"), 400, "grant_type"],
      [
        "a client twice",
        form("grant_type=client_credentials&client_id=a&client_id=b&client_secret=x"),
        400,
        "client_id",
      ],
      ["U+0000", form("grant_type=client_credentials&client_id=a%00&client_secret=x"), 400, "client_id"],
      ["a wrong client", form("grant_type=client_credentials&client_id=a&client_secret=b"), 401],
    ];
  },
};

describe("A hostile request", () => {
  for (const [what, rows] of Object.entries(tables)) {
    it(`is refused with a 4xx in the specified shape: ${what}`, async () => {
      const faults: string[] = [];

      for (const [why, bytes, status, field] of rows()) {
        try {
          const answers = await send(server.url, bytes);
          expect(answers.length, "answers").to.equal(1);
          const [answer] = answers as [(typeof answers)[0]];
          expect(answer.status).to.equal(status);
          const { details } = expectSpecifiedError(answer);
          if (field !== undefined) expect(details.map((fault) => fault.field)).to.include(field);
          if (status === 405) expect(answer.headers["allow"]).to.match(/^[A-Z]+(, [A-Z]+)*$/);
          if (status === 401) expect(answer.headers["www-authenticate"]).to.match(/^Bearer realm="holdfast"/);
        } catch (error) {
          faults.push(`${why}: ${(error as Error).message}`);
        }
      }

      expect(faults).to.deep.equal([]);
    });
  }

  it("leaves no line of level error in the log, and a healthy server", async () => {
    const { status } = await server.anonymous.rest("GET", "/api/v1/health");

    expect(status).to.equal(200);
    expect(errorLines(server.log)).to.deep.equal([]);
  });

  it("is one of about 300", () => {
    const count = Object.values(tables).reduce((sum, rows) => sum + rows().length, 0);

    expect(count).to.be.above(300);
  });
});
