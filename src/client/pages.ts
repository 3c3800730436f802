import type { Pagination } from "../../gen/ts/holdfast/paging/v1/paging_pb.ts";

/** The largest page that a list gives. */
const perPage = 100;

interface Page<Row> {
  readonly data: Row[];
  readonly pagination?: Pagination | undefined;
  /** Of the lists that have no `pagination`. */
  readonly total?: number;
}

/** Everything that a paged list holds, as in `allPages((page) => api(UserService).listUsers({ search, ...page }))`. */
export async function allPages<Row>(
  list: (page: { page: number; perPage: number }) => Promise<Page<Row>>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let page = 1; ; page += 1) {
    const { data, pagination, total = pagination?.total ?? 0 } = await list({ page, perPage });
    rows.push(...data);
    if (data.length === 0 || page * perPage >= total) return rows;
  }
}
