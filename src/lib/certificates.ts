/** What an operator can do about a certificate that is not trusted. */

/** The sentences that depend on which connection the certificate protects. */
export interface TrustAdvice {
  /** Whoever has the certificate: `the service`. */
  readonly owner: string;
  /** For a certificate of another host. */
  readonly otherHost: string;
  /** For a certificate whose authority this machine does not know. */
  readonly privateAuthority: string;
}

/** Returns what to do. `code`: why the certificate is not trusted, in the terms of OpenSSL and Node. */
export function adviceOnDistrust(code: string, { owner, otherHost, privateAuthority }: TrustAdvice): string {
  const checkClock = 'Is the clock of this machine right?';
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return `Whoever runs ${owner} has to renew it. ${checkClock}`;
    case 'CERT_NOT_YET_VALID':
      return checkClock;
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return otherHost;
    default:
      return privateAuthority;
  }
}
