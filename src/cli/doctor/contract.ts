/** The two names that the interface leaves open: what they are, who says so, and whether the manifest is there. */

import type { Configuration } from '../../configuration/configuration.ts';
import { type AccessCheck, createAccessCheck } from '../../feed/access-check.ts';
import type { ContractName, ContractSource } from '../../model/contract.ts';
import { RefusalError } from '../../model/errors.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import type { Check, Checked, Learned, Patient } from './check.ts';
import { type Finding, ok, skipped, trouble, troubleOf } from './findings.ts';
import { inquiryOptions, KEY_NOT_ACCEPTED, whyNotAsked } from './inquiry.ts';
import { datasetToAsk, subscriptionToAsk } from './scopes.ts';

const LIMIT_MS = 60_000;
const NOT_FOUND = 404;

export const contractCheck: Check = { name: 'contract', limitMs: LIMIT_MS, run: checkContract };

const SOURCES: Readonly<Record<ContractSource, string>> = {
  config: 'from the configuration',
  openapi: 'from what the service says of itself',
  remembered: 'from what the service said of itself before',
  default: 'the default: the service does not describe itself',
};

async function checkContract(patient: Patient, learned: Learned, signal: AbortSignal): Promise<Checked> {
  const { configuration } = patient.inspection;
  const why = whyNotAsked(configuration, learned);
  if (why !== null || configuration === null) return { findings: [skipped('names', why ?? '')] };
  if (learned.subscriptions === null) return { findings: [skipped('names', KEY_NOT_ACCEPTED)] };
  const access = createAccessCheck(inquiryOptions(configuration, patient.context, learned.checkpoint));
  try {
    const { manifestPath, newerThanParameter } = await access.contract(signal);
    const names = [
      ok('manifest path', named(manifestPath)),
      ok('newer than', newerThanParameter === null ? 'not used' : named(newerThanParameter)),
    ];
    const { finding, listedDatasetIds } = await askForManifest(
      access,
      manifestPath,
      configuration,
      learned,
      signal,
    );
    return { findings: [...names, finding], learned: { listedDatasetIds } };
  } finally {
    await access.close();
  }
}

function named({ value, source }: ContractName): string {
  return `${value} (${SOURCES[source]})`;
}

interface ManifestAnswer {
  readonly finding: Finding;
  /** What the page that was asked for lists. */
  readonly listedDatasetIds: readonly string[];
}

async function askForManifest(
  access: AccessCheck,
  path: ContractName,
  configuration: Configuration,
  learned: Learned,
  signal: AbortSignal,
): Promise<ManifestAnswer> {
  const about = 'manifest';
  const isOfDataset = path.value.includes('{datasetId}');
  const subject = isOfDataset ? datasetToAsk(configuration, learned) : subscriptionToAsk(learned);
  if (subject === null) {
    return { finding: skipped(about, 'There is nothing to ask it about.'), listedDatasetIds: [] };
  }
  const ask = isOfDataset ? access.manifestEntry : access.manifest;
  try {
    const listedDatasetIds = await ask(path, subject, signal);
    return { finding: ok(about, `is there (asked of ${subject})`), listedDatasetIds };
  } catch (error) {
    const isMissing = error instanceof RefusalError && error.refusal.status === NOT_FOUND;
    const finding = isMissing ? missingManifest(path, subject) : troubleOf(about, error);
    return { finding, listedDatasetIds: [] };
  }
}

function missingManifest({ value, source }: ContractName, subject: string): Finding {
  const found = `The service has no manifest of ${subject} at ${value} (404).`;
  const hint =
    source === 'config'
      ? 'Correct service.contract.manifestPath, or leave it out to have it discovered.'
      : 'Ask the service where its manifest is, and set service.contract.manifestPath.';
  return trouble('manifest', found, EXIT_CODES.wrongConfiguration, hint);
}
