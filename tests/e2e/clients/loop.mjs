// A tool loop on openai-node: `node loop.mjs create|stream|helper default|nostore`; prints what agent.mjs prints.
// `helper` is `responses.stream()`, which adds parsed members to the items that it hands out.
import OpenAI from 'openai';

const [mode, store] = process.argv.slice(2);
const turns = [];
const client = new OpenAI({
  maxRetries: 0,
  fetch: async (url, init) => {
    const answer = await fetch(url, init);
    turns.push({
      status: answer.status,
      transport: answer.headers.get('x-deltawire-transport'),
      reason: answer.headers.get('x-deltawire-reason'),
      store: JSON.parse(init.body).store ?? null,
      references: 0,
    });
    return answer;
  },
});

const envelope = {
  model: 'gpt-5.2',
  instructions: 'You are a helpful agent. Use the tools.',
  tools: [
    {
      type: 'function',
      name: 'shell',
      description: 'Run a shell command.',
      strict: true,
      parameters: {
        type: 'object',
        properties: { command: { type: 'string' } },
        required: ['command'],
        additionalProperties: false,
      },
    },
  ],
  ...(store === 'nostore' ? { store: false, include: ['reasoning.encrypted_content'] } : {}),
};

async function answerTo(input) {
  if (mode === 'create') return client.responses.create({ ...envelope, input });
  if (mode === 'helper') return client.responses.stream({ ...envelope, input }).finalResponse();
  let last;
  for await (const event of await client.responses.create({ ...envelope, input, stream: true })) last = event;
  return last.response;
}

const input = [{ role: 'user', content: 'Say what is in notes.txt.' }];
const steps = [];
let answer;
do {
  answer = await answerTo(input);
  input.push(...answer.output);
  const calls = answer.output.filter((item) => item.type === 'function_call');
  const results = calls.map((call) => `ran: ${JSON.parse(call.arguments).command}`);
  calls.forEach((call, i) => input.push({ type: 'function_call_output', call_id: call.call_id, output: results[i] }));
  steps.push({ calls: calls.map((call) => ({ toolName: call.name, input: JSON.parse(call.arguments) })), results });
} while (steps.at(-1).calls.length && steps.length < 50);
const message = answer.output.find((item) => item.type === 'message');
console.log(JSON.stringify({ turns, steps, text: message.content[0].text }));
