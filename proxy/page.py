"""The live page: the last turns, links and heads, asked of the admin side every second."""

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>deltawire</title>
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 2rem; color: #222; background: #fff; }
h1 { font-size: 1.2rem; } table { border-collapse: collapse; margin-top: 1rem; }
th, td { text-align: right; padding: .2rem .7rem; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child, .text { text-align: left; }
.delta { color: #0a6b2d; } .full { color: #8a5a00; } .http { color: #555; } .bad { color: #b00020; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818; } th, td { border-color: #333; }
.delta { color: #6fd08c; } .full { color: #e0b050; } .http { color: #aaa; } .bad { color: #ff7b7b; } }
</style>
<h1>deltawire</h1>
<p id="summary">waiting for the first answer</p>
<table><thead><tr><th>turn</th><th class="text">way</th><th class="text">reason</th><th>status</th><th>items</th>
<th>sent</th><th>bytes in</th><th>bytes up</th><th>overhead ms</th><th>first event ms</th>
<th class="text">model</th></tr></thead>
<tbody id="turns"></tbody></table>
<script>
const ms = (seconds) => seconds === null ? "" : (seconds * 1000).toFixed(1);
async function refresh() {
  const [turns, links, heads] = await Promise.all(
    ["turns?limit=50", "links", "heads"].map((name) => fetch("/api/" + name).then((answer) => answer.json())));
  const deltas = turns.filter((turn) => turn.transport === "delta").length;
  document.getElementById("summary").textContent =
    `last ${turns.length} turns: ${deltas} deltas; ${links.length} links, ${heads.length} heads`;
  document.getElementById("turns").replaceChildren(...turns.map((turn) => {
    const row = document.createElement("tr");
    const cells = [turn.number, turn.transport, turn.reason || turn.error, turn.status, turn.items_total,
      turn.items_sent, turn.client_bytes, turn.upstream_bytes, ms(turn.overhead_s), ms(turn.first_event_s), turn.model];
    row.append(...cells.map((value, place) => {
      const cell = document.createElement("td");
      cell.textContent = value;
      if (place === 1) cell.className = "text " + turn.transport;
      if (place === 2) cell.className = turn.error ? "text bad" : "text";
      if (place === 10) cell.className = "text";
      return cell;
    }));
    return row;
  }));
}
const look = () => refresh().catch(() => {
  document.getElementById("summary").textContent = "no answer from the sidecar; what follows is what it said last";
});
look(); setInterval(look, 1000);
</script>
</html>
"""
