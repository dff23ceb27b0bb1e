"""07: the stream of a layer on two ranks: cut by tokens between the blocks, by heads and features inside them."""
from said import lines, value
from svg import Picture


def picture():
    said = lines(7)
    tokens = int(value(said, r"^x \[\d+,(\d+),"))
    sent = value(said, r"^slices, forward +│ +4 +4 │ +(\S+)")
    whole = value(said, r"^whole stream, forward +│ +2 +2 │ +(\S+)")
    kept = [value(said, rf"^{name} +│ +\S+ +\S+ │ +(\S+)") for name in ("whole stream", "slices")]
    first = -(-tokens // 2)
    p = Picture("Sequence parallel: what a rank holds, place by place",
                f"The stream of {tokens} tokens goes through a layer. Between the blocks a rank holds some tokens with all their features. An "
                "all-gather in front of a block gives it all tokens, of which it computes its heads or features; a reduce-scatter behind "
                "the block adds the terms and cuts by tokens again.", 330)
    p.legend(56)
    p.text(250, 56, "a row is a token, a column a feature", 12, kind="soft")
    stages = (("norm", "tokens"), ("attention", "heads"), ("add, norm", "tokens"), ("MLP", "features"), ("add", "tokens"))
    width, gap, top, height = 88, 68, 96, 20
    for at, (name, cut) in enumerate(stages):
        x = 24 + at * (width + gap)
        p.text(x + width / 2, top - 10, name, 13, "middle", bold=True)
        for row in range(tokens):
            if cut == "tokens":
                p.box(x, top + row * height, width, height - 2, f"r{0 if row < first else 1}", f"token {row}", 11, 1)
            else:
                p.split_box(x, top + row * height, width, height - 2, (0, 1))
        words = f"{first} and {tokens - first} tokens" if cut == "tokens" else f"half the {cut}"
        p.text(x + width / 2, top + tokens * height + 16, words, 11, "middle", kind="soft")
        if at + 1 < len(stages):
            middle = top + tokens * height / 2
            call = "all-\ngather" if cut == "tokens" else "reduce-\nscatter"
            p.box(x + width + 6, middle - 22, gap - 12, 44, "call", call, 11)
    y = top + tokens * height + 50
    p.text(20, y, f"Sent forward by a rank: {sent} bytes in 4 calls. As two all-reduces: {whole} bytes in 2.", 12)
    p.text(20, y + 20, f"Kept between the blocks by rank 0: {kept[1]} bytes. With the whole stream on every rank: {kept[0]} bytes.", 12)
    return p
