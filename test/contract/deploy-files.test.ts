/** The files by which the program is installed agree with each other and with the program. */

import { globSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EXIT_CODES } from '../../src/cli/exit-codes.ts';
import { allKeys, FILE_VARIABLE, variableOf } from '../../src/configuration/schema.ts';
import { commandLine } from '../support/command-line.ts';
import { API_KEY, load } from '../support/configuration.ts';
import {
  at,
  dockerfileSays,
  kubernetesObjects,
  listAt,
  projectText,
  unitLines,
  yamlFile,
} from '../support/deployment-files.ts';
import { projectRoot } from '../support/source-tree.ts';

const PORT = 9_464;
const { version } = JSON.parse(projectText('package.json'));

const compose = yamlFile('config/compose.yaml');
const composePostgres = yamlFile('config/compose-postgres.yaml');
const configuration = kubernetesObjects('configuration.yaml');
const daemon = kubernetesObjects('statefulset.yaml');
const once = kubernetesObjects('cronjob.yaml');
const network = kubernetesObjects('networkpolicy.yaml');

const PODS: readonly (readonly [string, unknown])[] = [
  ['the StatefulSet', at(daemon.get('StatefulSet'), 'spec.template.spec')],
  ['the CronJob', at(once.get('CronJob'), 'spec.jobTemplate.spec.template.spec')],
];

/** `{ name, value }` or `{ name, mountPath }` as one record. */
function byName(entries: readonly unknown[], value: string): Readonly<Record<string, unknown>> {
  return Object.fromEntries(entries.map((entry) => [at(entry, 'name'), at(entry, value)]));
}

describe('settings', () => {
  const pages = globSync('{README.md,config/**/*.{yaml,service,timer},docs/**/*.md}', { cwd: projectRoot });
  const files = ['Dockerfile', ...pages];

  it.each(files)('%s names only variables that exist', (path) => {
    const known = [...allKeys.map(variableOf), FILE_VARIABLE];
    const named = projectText(path).match(/\bFEED_SYNC_[A-Z_]*[A-Z]\b/g) ?? [];
    expect(named.filter((name) => !known.includes(name))).toEqual([]);
  });

  it('the settings of the ConfigMap are valid, and their file is where the program looks', () => {
    const text = at(configuration.get('ConfigMap'), 'data');
    const [name = '', content = ''] = Object.entries(text as Record<string, string>)[0] ?? [];
    const path = `/etc/feed-sync/${name}`;
    const { filePath } = load({ files: { [path]: content }, environment: { FEED_SYNC_API_KEY: API_KEY } });
    expect(filePath).toBe(path);
  });
});

describe('the image', () => {
  it('the image has the version of the program, everywhere', () => {
    expect(dockerfileSays('ARG')).toBe(`VERSION=${version}`);
    const images = [
      at(compose, 'services.feed-sync.image'),
      at(compose, 'services.reader.image'),
      at(composePostgres, 'x-daemon.image'),
      ...PODS.map(([, pod]) => at(pod, 'containers.0.image')),
    ];
    for (const image of images) expect(image).toMatch(new RegExp(`\\bfeed-sync:${version}$`));
  });

  it('each of two daemons beside PostgreSQL has a volume of its own, and gets the address as a secret', () => {
    const volume = listAt(compose, 'services.feed-sync.volumes').map(String)[0]?.replace('data:', '');
    for (const name of ['first', 'second']) {
      expect(listAt(composePostgres, `services.${name}.volumes`)).toEqual([`${name}:${volume}`]);
    }
    expect(listAt(composePostgres, 'x-daemon.secrets')).toEqual(['api-key', 'database-url']);
    const path = at(composePostgres, 'x-daemon.environment.FEED_SYNC_DESTINATION_URL_FILE');
    expect(path).toBe('/run/secrets/database-url');
  });

  it('the image keeps everything in its one volume', () => {
    const volume = dockerfileSays('VOLUME');
    expect(projectText('Dockerfile')).toContain(`FEED_SYNC_DATA_DIR=${volume}\n`);
    expect(listAt(compose, 'services.feed-sync.volumes')).toEqual([`data:${volume}`]);
    expect(listAt(compose, 'services.reader.volumes')).toEqual([`data:${volume}:ro`]);
  });

  it('the health check of the image asks where the program listens', () => {
    const [, health = ''] = /^HEALTHCHECK .*\n(.*)$/m.exec(projectText('Dockerfile')) ?? [];
    expect(health).toContain(`127.0.0.1:${PORT}`);
    expect(health).toContain("'/livez'");
    expect(at(compose, 'services.feed-sync.environment.FEED_SYNC_STATUS_LISTEN')).toBe(`0.0.0.0:${PORT}`);
    expect(listAt(compose, 'services.feed-sync.ports')).toEqual([`127.0.0.1:${PORT}:${PORT}`]);
  });

  it('the image gets its secret as a file', () => {
    const path = at(compose, 'services.feed-sync.environment.FEED_SYNC_API_KEY_FILE');
    expect(listAt(compose, 'services.feed-sync.secrets').map((name) => `/run/secrets/${name}`)).toEqual([
      path,
    ]);
    expect(Object.keys(at(compose, 'secrets') as object)).toEqual(['api-key']);
  });
});

describe.each(PODS)('%s', (_, pod) => {
  const container = at(pod, 'containers.0');
  const environment = byName(listAt(container, 'env'), 'value');
  const mounts = byName(listAt(container, 'volumeMounts'), 'mountPath');

  it('the pod runs as the user of the image, without rights, on a read-only root', () => {
    const { runAsUser, runAsGroup, runAsNonRoot, fsGroup } = at(pod, 'securityContext') as Record<
      string,
      unknown
    >;
    expect(`${runAsUser}:${runAsGroup}`).toBe(dockerfileSays('USER'));
    expect({ runAsNonRoot, fsGroup }).toEqual({ runAsNonRoot: true, fsGroup: runAsGroup });
    expect(at(container, 'securityContext')).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
  });

  it('the pod mounts the paths that its settings name', () => {
    expect(mounts['data']).toBe(environment['FEED_SYNC_DATA_DIR']);
    expect(mounts['configuration']).toBe('/etc/feed-sync');
    const [key] = Object.keys(at(configuration.get('Secret'), 'stringData') as object);
    expect(environment['FEED_SYNC_API_KEY_FILE']).toBe(`${mounts['api-key']}/${key}`);
    expect(listAt(pod, 'volumes')).toContainEqual({
      name: 'api-key',
      secret: { secretName: at(configuration.get('Secret'), 'metadata.name'), defaultMode: 0o440 },
    });
  });

  it('the pod takes no variables from services, which would look like settings', () => {
    expect(at(pod, 'enableServiceLinks')).toBe(false);
  });

  it('the pod limits its memory, which DuckDB goes by', () => {
    expect(at(container, 'resources.limits')).toEqual({ memory: expect.stringMatching(/^\d+Gi$/) });
  });
});

describe('the NetworkPolicy', () => {
  const spec = at(network.get('NetworkPolicy'), 'spec');

  it('the NetworkPolicy lets one namespace reach the port of the status server in the pods of the StatefulSet', () => {
    const pod = at(daemon.get('StatefulSet'), 'spec.template');
    expect(at(spec, 'podSelector.matchLabels')).toEqual(at(pod, 'metadata.labels'));
    expect(at(spec, 'policyTypes')).toEqual(['Ingress']);
    const port = at(pod, 'spec.containers.0.ports.0.name');
    expect(listAt(spec, 'ingress')).toEqual([
      {
        from: [expect.objectContaining({ namespaceSelector: expect.anything() })],
        ports: [{ protocol: 'TCP', port }],
      },
    ]);
  });
});

describe('the StatefulSet', () => {
  const set = daemon.get('StatefulSet');
  const container = at(set, 'spec.template.spec.containers.0');

  it('the StatefulSet has one replica, with a volume of its own, behind its service', () => {
    expect(at(set, 'spec.replicas')).toBe(1);
    expect(at(set, 'spec.serviceName')).toBe(at(daemon.get('Service'), 'metadata.name'));
    expect(at(set, 'spec.volumeClaimTemplates.0.metadata.name')).toBe('data');
    expect(at(daemon.get('Service'), 'spec.selector')).toEqual(at(set, 'spec.template.metadata.labels'));
  });

  it('the probes of the StatefulSet ask where the program listens', () => {
    const environment = byName(listAt(container, 'env'), 'value');
    expect(environment['FEED_SYNC_STATUS_LISTEN']).toBe(`0.0.0.0:${PORT}`);
    expect(listAt(container, 'ports')).toEqual([{ name: 'status', containerPort: PORT }]);
    expect(listAt(daemon.get('Service'), 'spec.ports')).toEqual([
      { name: 'status', port: PORT, targetPort: 'status' },
    ]);
    expect(at(container, 'livenessProbe.httpGet')).toEqual({ path: '/livez', port: 'status' });
    expect(at(container, 'readinessProbe.httpGet')).toEqual({ path: '/readyz', port: 'status' });
  });
});

describe('exit codes', () => {
  const failures = Object.values(EXIT_CODES).filter((code) => code !== EXIT_CODES.caughtUp);
  /** Another start would end in the same way. */
  const final = [EXIT_CODES.wrongUsage, EXIT_CODES.operatorMustAct, EXIT_CODES.wrongConfiguration];

  it('F64 exit codes decide in a CronJob whether it is tried again', () => {
    const job = at(once.get('CronJob'), 'spec.jobTemplate.spec');
    const rules = listAt(job, 'podFailurePolicy.rules').slice(1);
    const codesOf = Object.fromEntries(
      rules.map((rule) => [at(rule, 'action'), listAt(rule, 'onExitCodes.values')]),
    );
    expect(Object.keys(codesOf)).toEqual(['FailJob', 'Count']);
    expect(codesOf['FailJob']).toEqual(expect.arrayContaining(final));
    expect(codesOf['Count']).toEqual([EXIT_CODES.bug, EXIT_CODES.tryAgainLater]);
    expect(Object.values(codesOf).flat().toSorted()).toEqual(failures.toSorted());
    for (const rule of rules) {
      expect(at(rule, 'onExitCodes.containerName')).toBe(at(job, 'template.spec.containers.0.name'));
    }
    expect(at(job, 'template.spec.restartPolicy')).toBe('Never');
    expect(at(once.get('CronJob'), 'spec.concurrencyPolicy')).toBe('Forbid');
    expect(at(job, 'activeDeadlineSeconds')).toBe(24 * 3_600);
  });

  it('exit codes decide under systemd whether it is started again', () => {
    expect(unitLines('feed-sync.service')).toContain(`Service.RestartPreventExitStatus=${final.join(' ')}`);
  });
});

describe('commands', () => {
  const commands: readonly (readonly [string, readonly string[]])[] = [
    ['the image', JSON.parse(dockerfileSays('CMD'))],
    ['the compose file', listAt(compose, 'services.feed-sync.command').map(String)],
    ...PODS.map(([name, pod]) => [name, listAt(pod, 'containers.0.args').map(String)] as const),
  ];

  it.each(commands)('the commands of %s exist', async (_, words) => {
    const feed = { baseUrl: 'https://feed.example.com', apiKey: API_KEY };
    const line = commandLine({ feed, now: () => new Date(0) });
    onTestFinished(line.remove);
    const { exitCode, stdout } = await line.run(...words, '--help');
    expect(exitCode).toBe(EXIT_CODES.caughtUp);
    expect(stdout).toContain(`Usage: feed-sync ${words.join(' ')} `);
  });
});
