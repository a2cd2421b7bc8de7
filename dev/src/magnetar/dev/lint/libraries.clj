(ns magnetar.dev.lint.libraries
  "The poms have the libraries of deps.edn, between two comments: :deps in core/pom.xml and in the profile `library` of
  pom.xml, each alias with :extra-deps in the profile of its name, and the :deps of
  cluster/deps.edn, erlang/deps.edn, etf/deps.edn and http/deps.edn in the poms beside them. The gate compares the text, `fix` writes it."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.dev.lint.sources :as sources]))

(set! *warn-on-reflection* true)

(def ^:private begin "<!-- generated from deps.edn; CONTRIBUTING.md says how -->")

(def ^:private end "<!-- end of what is generated -->")

;; --- XML

(defn- indented [lines]
  (map #(str "  " %) lines))

(defn- element [tag lines]
  (concat [(str "<" tag ">")] (indented lines) [(str "</" tag ">")]))

(defn- leaf [tag text]
  (str "<" tag ">" (str/escape (str text) {\< "&lt;", \> "&gt;", \& "&amp;"}) "</" tag ">"))

(defn- coordinate [lib]
  [(leaf "groupId" (namespace lib)) (leaf "artifactId" (name lib))])

(defn- exclusions [excluded]
  (when (seq excluded)
    (element "exclusions" (mapcat #(element "exclusion" (coordinate %)) excluded))))

(defn- dependency [[lib {:keys [mvn/version] excluded :exclusions}]]
  (element "dependency" (concat (coordinate lib) [(leaf "version" version)] (exclusions excluded))))

(defn- dependencies
  "The lines of the libraries, by name: a large map has no order of its own."
  [libraries]
  (mapcat dependency (sort-by (comp str key) libraries)))

(defn- profile [[id libraries]]
  (element "profile" (cons (leaf "id" id) (element "dependencies" (dependencies libraries)))))

;; --- the poms

(defn- aliases
  "[name libraries] of each alias that has libraries, by name."
  [deps]
  (sort-by first (for [[alias {:keys [extra-deps]}] (:aliases deps) :when extra-deps] [(name alias) extra-deps])))

(defn- published
  "The libraries that have a version. The others are modules of this project."
  [{:keys [deps]}]
  (filter (comp :mvn/version val) deps))

(defn- blocks
  "What each pom holds between its comments, as lines, and how far they are indented there."
  [{:keys [deps] :as all} cluster erlang etf http]
  {"pom.xml" [4 (mapcat profile (cons ["library" deps] (aliases all)))]
   "core/pom.xml" [4 (dependencies deps)]
   "cluster/pom.xml" [4 (dependencies (published cluster))]
   "erlang/pom.xml" [4 (dependencies (published erlang))]
   "etf/pom.xml" [4 (dependencies (published etf))]
   "http/pom.xml" [4 (dependencies (published http))]})

(defn- with-block
  "The text of a pom with these lines between its comments, or nil if it does not have both."
  [text [width lines]]
  (let [margin (str/join (repeat width " "))
        from (str/index-of text begin)
        to (str/index-of text end)]
    (when (and from to (< (long from) (long to)))
      (str (subs text 0 (+ (long from) (count begin)))
           "\n" (str/join (map #(str margin % "\n") lines)) margin
           (subs text to)))))

(defn- poms
  "Each pom as :file, :text and what :wanted is in its place."
  []
  (for [[file block] (apply blocks (map (comp edn/read-string sources/text) ["deps.edn" "cluster/deps.edn" "erlang/deps.edn" "etf/deps.edn" "http/deps.edn"]))
        :let [text (sources/text file)]]
    {:file file :text text :wanted (with-block text block)}))

(defn- first-difference
  "[number of the line, line, wanted line] of the first line that differs."
  [text wanted]
  (first (keep-indexed (fn [index [line wanted-line]] (when (not= line wanted-line) [(inc (long index)) line wanted-line]))
                       (map vector (concat (str/split-lines text) [""]) (concat (str/split-lines wanted) [""])))))

(defn- finding [{:keys [file text wanted]}]
  (cond
    (nil? wanted) {:file file :message (str "has no place for the libraries of deps.edn: put them between `" begin "` and `" end "`")}
    (not= text wanted)
    (let [[number line wanted-line] (first-difference text wanted)]
      {:file file
       :line number
       :message (str "has `" (str/trim line) "` where deps.edn gives `" (str/trim wanted-line) "`: `bin/magnetar lint --fix` writes it")})))

(defn findings
  "Poms whose libraries differ from deps.edn."
  []
  (keep finding (poms)))

(defn fix
  "Writes the libraries of deps.edn into the poms."
  []
  (doseq [{:keys [file text wanted]} (poms)
          :when (and wanted (not= text wanted))]
    (spit (io/file sources/*root* file) wanted)
    (println (str file ": has the libraries of deps.edn now"))))
