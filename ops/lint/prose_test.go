package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// maxWords is how many words a sentence has at most. Write 25: one idea, with its actor named.
const maxWords = 30

// hardWords are words that readers whose first language is not English look up, or that hide who acts.
var hardWords = []string{"whoever", "whosoever", "lest", "anew", "nobody", "somebody", "wherefore", "whereupon", "thereof", "hitherto"}

// proseList holds the findings of the files from before the rule, by file. It only shrinks.
const proseList = "prose.txt"

// Plain words: comments, help texts and pages have short sentences and none of hardWords. Files of before may keep what they have,
// and no more. UPDATE_PROSE=1 writes the list after a rewrite.
func TestProse(t *testing.T) {
	found := map[string][]string{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") && name != ".."):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go"), strings.HasSuffix(name, ".md"):
			texts, err := proseOf(path)
			if err != nil {
				return err
			}
			file := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			for _, text := range texts {
				found[file] = append(found[file], judgeProse(text)...)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	allowed := readProse(t)
	var lines []string
	for _, file := range slices.Sorted(keysOf(found, allowed)) {
		n, most := len(found[file]), allowed[file]
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%d %s", min(n, most), file))
		}
		switch {
		case n > most:
			t.Errorf("%s: %d passages that are hard to read, %d were there before. Say it in short sentences whose actor is named; house words are in maxWords and hardWords here:\n\t%s",
				file, n, most, strings.Join(found[file], "\n\t"))
		case n < most && os.Getenv("UPDATE_PROSE") == "":
			t.Errorf("%s: %d passages that are hard to read, and %s allows %d: run UPDATE_PROSE=1 go test -run TestProse ./ops/lint", file, n, proseList, most)
		}
	}
	if os.Getenv("UPDATE_PROSE") != "" && !t.Failed() {
		if err := os.WriteFile(proseList, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func keysOf(found map[string][]string, allowed map[string]int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for file := range found {
			if !yield(file) {
				return
			}
		}
		for file := range allowed {
			if _, both := found[file]; !both && !yield(file) {
				return
			}
		}
	}
}

func readProse(t *testing.T) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(proseList)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		number, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			t.Fatalf("%s: %q", proseList, line)
		}
		allowed[file] = n
	}
	return allowed
}

// proseOf returns the texts of a file that people read: comments, help texts, errors and what is logged, or a page's paragraphs.
func proseOf(path string) (texts []string, err error) {
	if strings.HasSuffix(path, ".md") {
		raw, err := os.ReadFile(path)
		return paragraphs(string(raw)), err
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, c := range f.Comments {
		if text := c.Text(); !strings.HasPrefix(text, "Code generated") {
			texts = append(texts, paragraphs(text)...)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is && !strings.HasSuffix(path, "_test.go") {
			texts = append(texts, messages(call)...)
		}
		if field, is := n.(*ast.Field); is && field.Tag != nil {
			if tag, err := strconv.Unquote(field.Tag.Value); err == nil {
				if help := reflect.StructTag(tag).Get("help"); help != "" {
					texts = append(texts, help)
				}
			}
		}
		return true
	})
	return texts, nil
}

// sayers are the functions whose texts operators and callers read.
var sayers = []string{"Errorf", "New", "Refuse", "Info", "Warn", "Error"}

// messages are the texts of a call to one of sayers.
func messages(call *ast.CallExpr) (texts []string) {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	if !slices.Contains(sayers, name) {
		return nil
	}
	for _, arg := range call.Args {
		if lit, is := arg.(*ast.BasicLit); is && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

var (
	item   = regexp.MustCompile(`^\s*([-*]|\d+\.)\s+`)
	fenced = regexp.MustCompile("(?s)```.*?```")
)

// paragraphs are the pieces of a text in which sentences run on: no tables, headings, code or lists of one line.
func paragraphs(text string) (list []string) {
	var now []string
	end := func() {
		if len(now) > 0 {
			list = append(list, strings.Join(now, " "))
		}
		now = nil
	}
	for line := range strings.Lines(fenced.ReplaceAllString(text, "\n\n")) {
		bare := strings.TrimSpace(line)
		switch {
		case bare == "", strings.HasPrefix(bare, "|"), strings.HasPrefix(bare, "#"), strings.HasPrefix(line, "\t"), len(now) == 0 && strings.HasPrefix(line, "    "), strings.HasPrefix(bare, "go:"):
			end()
			continue
		case item.MatchString(line):
			end()
		}
		now = append(now, item.ReplaceAllString(bare, ""))
	}
	end()
	return list
}

var (
	code     = regexp.MustCompile("`[^`]*`")
	quoted   = regexp.MustCompile(`"[^"]*"|“[^”]*”`)
	linked   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	sentence = regexp.MustCompile(`[.!?:;](\s+|$)`)
)

// judgeProse returns what is hard to read of a paragraph.
func judgeProse(text string) (findings []string) {
	text = linked.ReplaceAllString(text, "$1")
	text = quoted.ReplaceAllString(code.ReplaceAllString(text, "x"), "x")
	for _, s := range sentence.Split(text, -1) {
		words := strings.FieldsFunc(s, unicode.IsSpace)
		if len(words) > maxWords {
			findings = append(findings, fmt.Sprintf("%d words: %s …", len(words), strings.Join(words[:12], " ")))
		}
		for _, w := range words {
			if w = strings.ToLower(strings.Trim(w, ",()'’")); slices.Contains(hardWords, strings.TrimSuffix(w, "'s")) {
				findings = append(findings, fmt.Sprintf("the word %q: %s", w, strings.Join(words[:min(len(words), 12)], " ")))
			}
		}
	}
	return findings
}

func TestProseIsJudged(t *testing.T) {
	long := strings.Repeat("word ", maxWords)
	for text, want := range map[string]int{
		long + ".":                                 0,
		long + "more.":                             1,
		long + ". " + long + ".":                   0,
		long + "`a b c` [a link](to/it).":          1,
		"Nobody knows, lest it rain.":              2,
		"The rule refuses the word \"whoever\".":   0,
		"It says `whoever` in code. Nothing else.": 0,
	} {
		if got := judgeProse(text); len(got) != want {
			t.Errorf("%.40s: %q, want %d findings", text, got, want)
		}
	}
	page := "# Whoever\n\nOne\nparagraph.\n\n| nobody | x |\n\n- an item\n  goes on\n- another\n\n```\nnobody\n```\nEnd."
	if got := paragraphs(page); !slices.Equal(got, []string{"One paragraph.", "an item goes on", "another", "End."}) {
		t.Errorf("%q", got)
	}
}
