/** Which question a request asks. Pure. */

export type Question = 'livez' | 'readyz' | 'healthz' | 'status' | 'metrics' | 'webhook';

export type Route =
  | { readonly kind: 'question'; readonly question: Question }
  | { readonly kind: 'not-found' }
  /** `allow` is the value of the header. */
  | { readonly kind: 'not-allowed'; readonly allow: string };

const QUESTIONS: ReadonlyMap<string, Question> = new Map([
  ['/livez', 'livez'],
  ['/readyz', 'readyz'],
  ['/healthz', 'healthz'],
  ['/status', 'status'],
  ['/metrics', 'metrics'],
  ['/webhook', 'webhook'],
]);

const LOOKING: readonly string[] = ['GET', 'HEAD'];
const DELIVERING: readonly string[] = ['POST'];

/** `target` is that of the request line: a path, maybe with a query, which means nothing here. */
export function routeOf(method: string, target: string): Route {
  const question = QUESTIONS.get(target.replace(/\?.*$/s, ''));
  if (question === undefined) return { kind: 'not-found' };
  const methods = question === 'webhook' ? DELIVERING : LOOKING;
  return methods.includes(method)
    ? { kind: 'question', question }
    : { kind: 'not-allowed', allow: methods.join(', ') };
}
