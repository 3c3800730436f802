/** A bearer token. */
export interface Token {
  readonly token: string;
  readonly expiresAt: Date;
}

/** What a login is answered with, by whatever way it went. */
export const tokenOf = ({ accessToken, expiresIn }: { accessToken: string; expiresIn: number }): Token => ({
  token: accessToken,
  expiresAt: new Date(Date.now() + expiresIn * 1000),
});
