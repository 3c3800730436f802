/** SQL for whether the gateway in `g` could take over: it stands by, is in service, and was heard of within the seconds of a parameter. */
export const standsBy = (heartbeatTimeout: string): string =>
  `g.activation_status = 'standby' and g.deactivated_at is null and g.retired_at is null
   and g.last_heartbeat > now() - make_interval(secs => ${heartbeatTimeout})`;
