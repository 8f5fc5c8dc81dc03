/** What the operator's calls answer: counties, watches, and the webhook that was added. */

import { z } from 'zod';
import { Secret } from '../../lib/secret.ts';
import { isWebhookSecret } from '../../model/webhook-secret.ts';
import type { AddedWebhook, County, Watch } from '../operator.ts';
import { decode, id, list, moment, nextCursor, shownOnly } from './fields.ts';
import type { ListPage } from './records.ts';

const county = z
  .looseObject({ id, name: shownOnly(z.string()), state: shownOnly(z.string()) })
  .transform(({ id: countyId, name, state, ...further }): County => {
    return { id: countyId, name, state, further: new Map(Object.entries(further)) };
  });

const watch = z.object({ datasetId: id, createdAt: shownOnly(moment) }) satisfies z.ZodType<Watch>;

const countiesPage = z.object({ counties: list(county), nextCursor });
const watchesPage = z.object({ watches: list(watch), nextCursor });

const addedWebhook = z.object({
  id,
  url: shownOnly(z.string()),
  secret: z
    .string()
    .refine(isWebhookSecret, { error: 'is not whsec_ and base64' })
    .transform((text) => new Secret(text)),
});

/** @throws ContractViolationError */
export function decodeCounties(json: unknown, title: string): ListPage<County> {
  const page = decode(countiesPage, json, title);
  return { items: page.counties, nextCursor: page.nextCursor };
}

/** @throws ContractViolationError */
export function decodeWatches(json: unknown, title: string): ListPage<Watch> {
  const page = decode(watchesPage, json, title);
  return { items: page.watches, nextCursor: page.nextCursor };
}

/** `asked` is the address that was sent. @throws ContractViolationError that holds nothing of the secret. */
export function decodeAddedWebhook(json: unknown, asked: string, title: string): AddedWebhook {
  const { url, ...added } = decode(addedWebhook, json, title);
  return { ...added, url: url ?? asked };
}
