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
	"unicode/utf8"
)

const (
	// maxWords is how many words stand at most between two stops, colons and semicolons among them. Write 25: one idea, with its
	// actor named.
	maxWords = 30
	// maxSentence is how many words a sentence has at most, however many colons and semicolons divide it.
	maxSentence = 40
	// maxColumns is how long a comment's line is at most.
	maxColumns = 140
)

// hardWords are words that readers whose first language is not English look up, or that hide who acts.
var hardWords = []string{"whoever", "whomever", "whosoever", "lest", "anew", "nobody", "somebody", "wherefore", "whereupon", "thereof", "hitherto"}

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
			texts, wide := proseOf(t, path)
			file := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			if len(wide) > 0 {
				found[file] = wide
			}
			for _, text := range texts {
				found[file] = append(found[file], judgeProse(text)...)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	update := os.Getenv("UPDATE_PROSE") != ""
	lines, complaints := holdProse(found, readProse(t), update)
	for _, c := range complaints {
		t.Error(c)
	}
	if update && len(complaints) == 0 {
		if err := os.WriteFile(proseList, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// holdProse holds findings to the list, by file. It returns the lines of a list that has no greater number than before, and complains
// of each file with more findings than the list allows. Without update it complains of each file with fewer, too.
func holdProse(found map[string][]string, allowed map[string]int, update bool) (lines, complaints []string) {
	for _, file := range slices.Sorted(keysOf(found, allowed)) {
		n, most := len(found[file]), allowed[file]
		if n > 0 && most > 0 {
			lines = append(lines, fmt.Sprintf("%d %s", min(n, most), file))
		}
		switch {
		case n > most:
			complaints = append(complaints, fmt.Sprintf("%s: %d passages are hard to read, and %s allows %d. Write short sentences that name their actor; prose_test.go has the bounds and the words:\n\t%s",
				file, n, proseList, most, strings.Join(found[file], "\n\t")))
		case n < most && !update:
			complaints = append(complaints, fmt.Sprintf("%s: %d passages are hard to read, and %s allows %d. Run UPDATE_PROSE=1 go test -run TestProse ./ops/lint", file, n, proseList, most))
		}
	}
	return lines, complaints
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
// Wide are the comment lines of more than maxColumns.
func proseOf(t *testing.T, path string) (texts, wide []string) {
	t.Helper()
	if strings.HasSuffix(path, ".go") {
		return goProse(path, parsed(t, path))
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return paragraphs(string(raw)), nil
}

func goProse(path string, f *ast.File) (texts, wide []string) {
	for _, c := range f.Comments {
		for _, line := range c.List {
			for _, l := range strings.Split(line.Text, "\n") {
				if utf8.RuneCountInString(l) > maxColumns && !strings.HasPrefix(l, "//go:") {
					wide = append(wide, fmt.Sprintf("%d columns: %.40s …", utf8.RuneCountInString(l), l))
				}
			}
		}
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
	return texts, wide
}

// sayers are the functions whose texts operators and callers read.
var sayers = []string{"Errorf", "New", "Refuse", "refuse", "Invalid", "invalid", "Detailed", "detailed", "conflict", "failed", "fail", "bad", "busy", "misshapen",
	"Unreadable", "inWords", "invalidRAID", "Info", "Warn", "Error", "counter", "gauge", "histogram"}

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
	part     = regexp.MustCompile(`[.?!:;](\s+|$)`)
	sentence = regexp.MustCompile(`[.?!](\s+|$)`)
	code     = regexp.MustCompile("`[^`]*`")
	quoted   = regexp.MustCompile(`"[^"]*"|“[^”]*”`)
	linked   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// judgeProse returns what is hard to read of a paragraph.
func judgeProse(text string) (findings []string) {
	text = linked.ReplaceAllString(text, "$1")
	text = quoted.ReplaceAllString(code.ReplaceAllString(text, "x"), "x")
	for _, s := range sentence.Split(text, -1) {
		n := len(findings)
		for _, p := range part.Split(s, -1) {
			if words := strings.Fields(p); len(words) > maxWords {
				findings = append(findings, fmt.Sprintf("%d words between two stops: %s …", len(words), strings.Join(words[:12], " ")))
			}
		}
		words := strings.Fields(s)
		if len(words) > maxSentence && len(findings) == n {
			findings = append(findings, fmt.Sprintf("a sentence of %d words: %s …", len(words), strings.Join(words[:12], " ")))
		}
		for i, w := range words {
			if w = strings.ToLower(strings.Trim(w, ",:;()'’*_")); slices.Contains(hardWords, strings.TrimSuffix(w, "'s")) {
				findings = append(findings, fmt.Sprintf("the word %q: … %s", w, strings.Join(words[max(i-4, 0):min(len(words), i+5)], " ")))
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
		long + "; one more half; and another.":     0,
		long + "; " + long + ".":                   1,
		long + "more; and a second half.":          1,
		"*Anew*, somebody's.":                      2,
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

func TestProseOfGoFiles(t *testing.T) {
	source := "package p\n\n//go:generate " + strings.Repeat("x", maxColumns) + "\n\n// wide is " + strings.Repeat("x", maxColumns) +
		"\nconst wide = \"whoever\" // short\n\ntype flags struct {\n\tA string `help:\"For whoever asks.\" default:\"lest\"`\n}\n"
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	texts, wide := goProse("p.go", f)
	if len(wide) != 1 || len(texts) != 3 || texts[1] != "short" || texts[2] != "For whoever asks." {
		t.Errorf("%q, %q", texts, wide)
	}
}

// The list shrinks: no file may have more findings than before, and one with fewer has its number lowered.
func TestProseListShrinks(t *testing.T) {
	allowed := map[string]int{"more": 1, "same": 1, "fewer": 2, "none": 1}
	found := map[string][]string{"more": {"a", "b"}, "same": {"a"}, "fewer": {"a"}, "new": {"a"}}
	lines, complaints := holdProse(found, allowed, false)
	var about []string
	for _, c := range complaints {
		file, _, _ := strings.Cut(c, ":")
		about = append(about, file)
	}
	if !slices.Equal(about, []string{"fewer", "more", "new", "none"}) {
		t.Errorf("complains of %q", about)
	}
	updated, complaints := holdProse(found, allowed, true)
	if want := []string{"1 fewer", "1 more", "1 same"}; !slices.Equal(lines, want) || !slices.Equal(updated, want) {
		t.Errorf("the list becomes %q, %q", lines, updated)
	}
	if len(complaints) != 2 {
		t.Errorf("an update complains of %q", complaints)
	}
}
