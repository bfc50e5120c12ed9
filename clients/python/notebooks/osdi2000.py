import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import html
    import math

    import marimo as mo

    import freeblock

    return freeblock, html, math, mo


@app.cell
def _(mo):
    mo.md(r"""
    # Free bandwidth, in a minute

    A disk head that moves to a request waits for its sector to come round. Freeblock scheduling reads other blocks in that time
    (Lumb et al., OSDI 2000). Every number below is simulated while this page is made; the same seed gives the same number.
    """)
    return


@app.cell
def _(html, math, mo):
    COLOURS = ("#3b6ea5", "#d98b2b", "#5a9e6f", "#8c5fa8", "#bbbbbb")

    def _legend(names):
        marks = [
            f'<tspan dx="14" fill="{COLOURS[n]}">&#9632;</tspan><tspan dx="4" fill="currentColor">{html.escape(name)}</tspan>'
            for n, name in enumerate(names)
        ]
        return f'<text x="160" y="14" font-size="12">{"".join(marks)}</text>'

    def bars(rows, names):
        """Draws stacked shares; each row has a label and a share for each name."""
        drawn = [_legend(names)]
        for n, (label, shares) in enumerate(rows):
            y, x = 28 + 26 * n, 160.0
            drawn.append(f'<text x="152" y="{y + 14}" font-size="12" text-anchor="end" fill="currentColor">{html.escape(label)}</text>')
            for colour, share in zip(COLOURS, shares):
                drawn.append(f'<rect x="{x:.1f}" y="{y}" width="{share * 480:.1f}" height="18" fill="{colour}"/>')
                if share > 0.06:
                    middle = x + share * 240
                    drawn.append(f'<text x="{middle:.1f}" y="{y + 13}" font-size="11" text-anchor="middle" fill="white">{share:.0%}</text>')
                x += share * 480
        return mo.Html(f'<svg viewBox="0 0 660 {36 + 26 * len(rows)}" style="width:100%;max-width:760px">{"".join(drawn)}</svg>')

    def lines(xs, series, across, up):
        """Draws a line over xs for each series, which are given by name."""
        most = max(max(values) for values in series.values()) or 1
        # The axis has at most five steps; a step is 1, 2 or 5 times a power of ten.
        step = next(s for s in (f * 10**e for e in range(-3, 9) for f in (1, 2, 5)) if most / s <= 5)
        top = step * math.ceil(most / step)
        place = lambda x, y: (70 + 560 * x / max(xs), 230 - 190 * y / top)
        drawn = [_legend(series), '<path d="M70 40V230H630" fill="none" stroke="currentColor"/>']
        for x in xs:
            drawn.append(f'<text x="{place(x, 0)[0]:.0f}" y="246" font-size="11" text-anchor="middle" fill="currentColor">{x}</text>')
        for n in range(round(top / step) + 1):
            y = place(0, n * step)[1]
            drawn.append(f'<text x="64" y="{y + 4:.0f}" font-size="11" text-anchor="end" fill="currentColor">{n * step:g}</text>')
        for colour, values in zip(COLOURS, series.values()):
            points = [place(x, y) for x, y in zip(xs, values)]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        drawn.append(f'<text x="350" y="264" font-size="12" text-anchor="middle" fill="currentColor">{html.escape(across)}</text>')
        drawn.append(f'<text x="70" y="32" font-size="12" fill="currentColor">{html.escape(up)}</text>')
        return mo.Html(f'<svg viewBox="0 0 660 270" style="width:100%;max-width:760px">{"".join(drawn)}</svg>')

    def table(rows):
        """Shows a table; each row has its cells by the heads of their columns."""
        heads = "".join(f"<th>{html.escape(head)}</th>" for head in rows[0])
        cells = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row.values()) + "</tr>" for row in rows)
        return mo.Html(f"<table><tr>{heads}</tr>{cells}</table>")

    return bars, lines, table


@app.cell
def _(bars, freeblock, mo):
    DRIVES = ("quantum-atlas-10k", "seagate-cheetah-4lp", "seagate-cheetah-9lp", "ibm-ultrastar-9es")

    def usage(drive):
        head = freeblock.simulate(drive, requests=10_000, seed=1)["head_time"]
        busy = head["seek"] + head["rotation"] + head["transfer"]
        return drive, [head[part] / busy for part in ("seek", "rotation", "transfer")]

    figure_2 = [usage(drive) for drive in DRIVES]
    mo.vstack(
        [
            mo.md("## Figure 2: where a busy head's time goes\nRandom requests of 4 KB, one outstanding, first come first served."),
            bars(figure_2, ("seek", "rotational latency", "transfer")),
        ]
    )
    return


@app.cell
def _(freeblock, lines, mo):
    MPLS = (1, 2, 4, 7, 10, 15, 20)

    def mining(mpl):
        load = {"workload": "oltp", "mpl": mpl, "requests": 6_000, "seed": 1}
        alone, both = freeblock.simulate(**load), freeblock.simulate(**load, background="scan")
        return alone["foreground"], both["foreground"], both["background"]["mb_per_s"]

    figure_8 = [mining(mpl) for mpl in MPLS]
    mo.vstack(
        [
            mo.md(
                "## Figure 8: mining the data of a transaction system\nA scan of the whole disk beside transactions, in gaps alone. The two"
                " lines of the transactions lie on each other: the scan costs them nothing."
            ),
            lines(MPLS, {"MB/s of the scan": [row[2] for row in figure_8]}, "transactions at a time", "free bandwidth, MB/s"),
            lines(
                MPLS,
                {"alone": [row[0]["iops"] for row in figure_8], "with the scan": [row[1]["iops"] for row in figure_8]},
                "transactions at a time",
                "requests a second",
            ),
        ]
    )
    return


@app.cell
def _(freeblock, mo, table):
    def duel(rate):
        load = {"drive": "nearline-4tb", "rate": rate, "requests": 4_000, "warmup": 1_000, "seed": 1, "seeds": 3}
        disk = freeblock.simulate(where="device", **load)["foreground"]
        scan = {"background": "scan", "idle_time": True, "block_size": "64k"}
        ours = freeblock.simulate(where="outside", **load, **scan)
        inside = freeblock.simulate(where="inside", **load, **scan)
        mean = ours["foreground"]["mean_response_ms"]
        return {
            "requests a second": rate,
            "the disk alone, ms": f"{disk['mean_response_ms']:.2f}",
            "with a scan beside it, ms": f"{mean:.2f}",
            "harm, %": f"{(mean / disk['mean_response_ms'] - 1) * 100:.2f}",
            "the scan, MB/s": f"{ours['background']['mb_per_s']:.1f}",
            "a scheduler in the drive, MB/s": f"{inside['background']['mb_per_s']:.1f}",
        }

    duels = [duel(rate) for rate in (5, 20, 50)]
    mo.vstack(
        [
            mo.md(
                "## The duel: a drive of today, from outside\nA synthetic 4 TB drive with a write cache and a queue. The scheduler sees"
                " its answers alone, and may slow requests by 1% in the mean. Each number is the mean of three seeds. `freeblock lab run"
                " duel` has its rivals."
            ),
            table(duels),
        ]
    )
    return


if __name__ == "__main__":
    app.run()
