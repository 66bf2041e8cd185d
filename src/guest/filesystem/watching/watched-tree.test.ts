/** The paths of watched directories, without a filesystem. */
import { describe, expect, test } from "bun:test";
import { type WatchedDirectory, WatchedTree } from "./watched-tree.ts";

const ROOT = 1;

/** A tree with the given paths, numbered from 2 in their order; parents come first. */
function treeOf(...paths: string[]): { tree: WatchedTree; at: (path: string) => WatchedDirectory } {
  const tree = new WatchedTree(ROOT);
  const known = new Map([["", tree.root]]);
  const at = (path: string) => known.get(path) ?? expect.unreachable(path);
  for (const [index, path] of paths.entries()) {
    const cut = path.lastIndexOf("/");
    known.set(path, tree.place(index + 2, at(path.slice(0, Math.max(cut, 0))), path.slice(cut + 1)).directory);
  }
  return { tree, at };
}

test("the root is a dot, everything else is relative to it", () => {
  const { tree, at } = treeOf("a", "a/b");
  expect(tree.pathOf(tree.root)).toBe(".");
  expect(tree.pathOf(tree.root, "f")).toBe("f");
  expect([tree.pathOf(at("a/b")), tree.pathOf(at("a/b"), "f")]).toEqual(["a/b", "a/b/f"]);
});

describe("a rename", () => {
  test("takes all below along", () => {
    const { tree, at } = treeOf("a", "a/b", "a/b/c", "to");
    tree.leave(tree.root, "a", 7);
    expect(tree.pathOf(at("a/b/c"), "f")).toBe("a/b/c/f");
    tree.arrive(7, at("to"), "z");
    expect(tree.pathOf(at("a/b/c"), "f")).toBe("to/z/b/c/f");
    expect(tree.settle(at("a"))).toEqual([]);
    expect(tree.size).toBe(5);
  });

  test("out of the tree ends with all below forgotten", () => {
    const { tree, at } = treeOf("a", "a/b", "a/b/c", "other");
    tree.leave(tree.root, "a", 7);
    expect(tree.settle(at("a")).toSorted()).toEqual([2, 3, 4]);
    expect([tree.find(2), tree.find(4), tree.find(5)]).toEqual([undefined, undefined, at("other")]);
  });

  test("does not take along what has taken the old name since", () => {
    const { tree, at } = treeOf("a", "a/b");
    tree.leave(tree.root, "a", 7);
    const { directory } = tree.place(9, tree.root, "a");
    tree.arrive(7, tree.root, "z");
    expect([tree.pathOf(directory), tree.pathOf(at("a/b"))]).toEqual(["a", "z/b"]);
  });

  test("over another directory leaves that one to be forgotten by its number", () => {
    const { tree, at } = treeOf("a", "b");
    tree.leave(tree.root, "a", 7);
    tree.arrive(7, tree.root, "b");
    tree.forget(at("b"));
    expect(tree.root.children.get("b")).toBe(at("a"));
  });

  test("of something that was never watched changes nothing", () => {
    const { tree, at } = treeOf("a");
    tree.leave(tree.root, "none", 7);
    tree.arrive(7, at("a"), "none");
    tree.arrive(8, at("a"), "none");
    expect([tree.size, at("a").children.size]).toEqual([2, 0]);
  });
});

describe("a directory found where another was thought to be", () => {
  test("moves there, and says which place it left", () => {
    const { tree, at } = treeOf("a", "b");
    const placed = tree.place(3, tree.root, "a");
    expect(placed).toMatchObject({ isNew: false, unsettled: { directory: tree.root, name: "b" } });
    expect(tree.pathOf(at("b"))).toBe("a");
    expect(tree.place(2, tree.root, "b").unsettled).toBeUndefined();
    expect(tree.pathOf(at("a"))).toBe("b");
  });

  test("never moves into itself, but asks for another look", () => {
    const { tree, at } = treeOf("a", "a/b");
    expect(tree.place(2, at("a/b"), "x").unsettled).toEqual({ directory: at("a/b"), name: "x" });
    tree.place(ROOT, at("a"), "loop");
    expect([tree.pathOf(at("a")), tree.pathOf(tree.root)]).toEqual(["a", "."]);
  });
});
